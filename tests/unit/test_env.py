"""The environment of this project: addresses, the data directory, the secret key."""

import json
import multiprocessing
import os
import re
import secrets
import stat
import subprocess
import sys
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from django.conf import settings

from jobs import classes
from jobs.ranges import Seconds, Whole, WrongSetting
from project import env


@pytest.fixture(autouse=True)
def no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "WEIGHBRIDGE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_number_is_the_environments_or_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIGHBRIDGE_PORT", raising=False)
    assert env.number("WEIGHBRIDGE_PORT", 8000, Whole(1, 65_535)) == 8000
    monkeypatch.setenv("WEIGHBRIDGE_PORT", "8001")
    assert env.number("WEIGHBRIDGE_PORT", 8000, Whole(1, 65_535)) == 8001


def test_a_wrong_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_LEASE_SECONDS", "0.5")
    with pytest.raises(WrongSetting, match="WEIGHBRIDGE_LEASE_SECONDS is '0.5', but must be .* from 1 to 600"):
        env.number("WEIGHBRIDGE_LEASE_SECONDS", 30, Seconds(1, 600))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("WEIGHBRIDGE_PROT", "WEIGHBRIDGE_PORT"),
        ("WEIGHBRIDGE_JOB_MODULE", "WEIGHBRIDGE_JOB_MODULES"),
        ("WEIGHBRIDGE_ALLOWED_HOST", "WEIGHBRIDGE_ALLOWED_HOSTS"),
    ],
)
def test_a_variable_that_looks_like_a_setting_and_is_none_is_told(given: str, meant: str) -> None:
    told = env.misspelt({given: "1"}, ["WEIGHBRIDGE_PORT", "WEIGHBRIDGE_JOB_MODULES"])
    assert told == [f"The environment variable {given} sets nothing; is {meant} meant?"]


@pytest.mark.parametrize("given", ["WEIGHBRIDGE_PORT", "WEIGHBRIDGE_LOG_LEVEL", "WEIGHBRIDGE_SHOP_WAREHOUSE", "PROT"])
def test_a_setting_and_a_teams_own_variable_are_not(given: str) -> None:
    assert env.misspelt({given: "1"}, ["WEIGHBRIDGE_PORT"]) == []


@pytest.mark.parametrize(
    ("raw", "listed"), [("", []), ("a.b", ["a.b"]), (" a , b,, ", ["a", "b"]), ("a,b,a", ["a", "b", "a"])]
)
def test_a_list_is_split_at_its_commas(raw: str, listed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_JOB_MODULES", raw)
    assert env.names("WEIGHBRIDGE_JOB_MODULES") == listed


def test_the_data_directory_is_relative_to_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEIGHBRIDGE_DATA_DIR", raising=False)
    assert env.data_dir() == env.ROOT / ".data"
    monkeypatch.setenv("WEIGHBRIDGE_DATA_DIR", "other")
    assert env.data_dir() == env.ROOT / "other"
    monkeypatch.setenv("WEIGHBRIDGE_DATA_DIR", str(tmp_path))
    assert env.data_dir() == tmp_path


def test_an_empty_data_directory_is_one_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_DATA_DIR", "")
    assert env.data_dir() == env.ROOT / ".data"


GOOD = [
    ("DATABASE_URL", "postgresql", "postgresql://u:p@db:5432/w"),
    ("DATABASE_URL", "postgresql", "postgres://u:p@db:5432/w"),
    ("REDIS_URL", "redis", "redis://:p@cache:6379/0"),
    ("REDIS_URL", "redis", "rediss://:p@cache:6379/0"),
]
WRONG = [
    ("DATABASE_URL", "postgresql", "mysql://u:hidden@db/w"),
    ("DATABASE_URL", "postgresql", "redis://u:hidden@db/w"),
    ("DATABASE_URL", "postgresql", "//u:hidden@db/w"),
    ("DATABASE_URL", "postgresql", "sqlite:///w"),
    ("DATABASE_URL", "postgresql", "postgresqls://u:hidden@db/w"),
    ("REDIS_URL", "redis", "http://u:hidden@cache"),
    ("REDIS_URL", "redis", "postgresql://u:hidden@cache"),
    ("REDIS_URL", "redis", "127.0.0.1"),
]


@pytest.mark.parametrize(("name", "scheme", "url"), GOOD)
def test_a_url_of_the_right_scheme_is_taken(
    name: str, scheme: str, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, url)
    assert env.address(name, tmp_path) == url


@pytest.mark.parametrize(("name", "scheme", "url"), WRONG)
def test_a_url_of_another_scheme_is_refused_without_its_password(
    name: str, scheme: str, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(WrongSetting, match=f"{name} is .*, but must be a URL that begins with {scheme}://") as refused:
        env.address(name, tmp_path)
    assert "hidden" not in str(refused.value)


def test_a_url_that_cannot_be_split_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:hidden@[::1/w")
    try:
        env.address("DATABASE_URL", tmp_path)
    except WrongSetting:
        return


def test_a_wrong_port_of_redis_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:port/0")
    with pytest.raises(WrongSetting):
        env.address("REDIS_URL", tmp_path)


def test_addresses_kept_by_a_running_stack_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"DATABASE_URL": "postgresql://kept/w", "REDIS_URL": "redis://kept"}
    (tmp_path / "addresses.json").write_text(json.dumps(kept))
    assert env.address("DATABASE_URL", tmp_path) == "postgresql://kept/w"
    monkeypatch.setenv("DATABASE_URL", "postgresql://given/w")
    assert env.address("DATABASE_URL", tmp_path) == "postgresql://given/w"
    assert env.address("REDIS_URL", tmp_path) == "redis://kept"


@pytest.mark.parametrize("text", [None, "", "{", "{}"])
def test_without_kept_addresses_there_is_none(text: str | None, tmp_path: Path) -> None:
    """Commands that need no server still run."""
    if text is not None:
        (tmp_path / "addresses.json").write_text(text)
    assert env.address("DATABASE_URL", tmp_path) == ""


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("postgresql://u:p@db:6543/w", ("w", "u", "p", "db", 6543)),
        ("postgresql://db/w", ("w", "", "", "db", 5432)),
        ("postgresql://u%40x:p%2F%3A%40@db", ("weighbridge", "u@x", "p/:@", "db", 5432)),
        ("postgresql://u@[::1]:5433/w", ("w", "u", "", "::1", 5433)),
        ("", ("weighbridge", "", "", "127.0.0.1", 5432)),
    ],
)
def test_a_database_url_is_taken_apart(url: str, entry: tuple[str, str, str, str, int]) -> None:
    assert env.postgres(url) == {
        **dict(zip(("NAME", "USER", "PASSWORD", "HOST", "PORT"), entry, strict=True)),
        "OPTIONS": {},
    }


@pytest.mark.parametrize("port", ["65536", "99999", "port", "-1"])
def test_a_port_that_is_none_is_refused_without_the_password(
    port: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u:hidden@db:{port}/w")
    with pytest.raises(
        WrongSetting, match="DATABASE_URL is 'postgresql://…', but must be postgresql://user"
    ) as refused:
        env.address("DATABASE_URL", tmp_path)
    assert "hidden" not in str(refused.value)


def test_connection_options_in_a_database_url_are_not_dropped() -> None:
    assert "require" in repr(env.postgres("postgresql://u:p@db/w?sslmode=require"))


@pytest.fixture
def open_umask() -> object:
    """The widest there is, so that only the code keeps a file closed."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.mark.usefixtures("open_umask")
def test_the_secret_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    made = env.secret_key(data)
    assert len(made) >= 50
    assert env.secret_key(data) == made
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in data.iterdir()] == [("secret-key", 0o600)]


def test_a_secret_key_of_the_environment_is_used_and_nothing_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIGHBRIDGE_SECRET_KEY", "given")
    assert env.secret_key(tmp_path / "data") == "given"
    assert not (tmp_path / "data").exists()


def test_two_processes_that_both_find_no_key_end_with_one(tmp_path: Path) -> None:
    """Each is held, after it found no file, until the other found none either; so every round is the race."""
    spawn, rounds = multiprocessing.get_context("spawn"), 20
    both_found_none, answers = spawn.Barrier(2), spawn.Queue()
    pair = [spawn.Process(target=_make_keys, args=(tmp_path, rounds, both_found_none, answers)) for _ in "ab"]
    for process in pair:
        process.start()
    try:
        of_one, of_other = (answers.get(timeout=60) for _ in pair)
    finally:
        for process in pair:
            process.kill()
            process.join()
    assert of_one == of_other
    assert {key.rpartition(" ")[0] for key in of_one} <= {f"made by {process.pid} in" for process in pair}
    assert len(set(of_one)) == rounds  # every round had a winner of its own
    assert [[file.name for file in made.iterdir()] for made in tmp_path.iterdir()] == [["secret-key"]] * rounds


def _make_keys(parent: Path, rounds: int, both_found_none: Barrier, answers: "Queue[list[str]]") -> None:
    def made_after_the_other_found_none(size: int) -> str:
        both_found_none.wait(30)
        return f"made by {os.getpid()} in {round_}"

    secrets.token_urlsafe = made_after_the_other_found_none  # type: ignore[assignment]  # in this process only
    keys = []
    for round_ in range(rounds):
        keys.append(env.secret_key(parent / str(round_)))
    answers.put(keys)


def test_a_data_directory_below_a_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongSetting, match="WEIGHBRIDGE_DATA_DIR is .*, but must be a directory that can be written"):
        env.secret_key(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    ("origins", "secure"),
    [
        ([], False),
        (["https://a.b"], True),
        (["https://a.b", "http://c.d"], False),
        (["https://a.b", "https://c.d"], True),
    ],
)
def test_only_where_everybody_comes_by_https_is_all_https(origins: list[str], secure: bool) -> None:
    assert env.all_https(origins) is secure


_SHOW = """
import json
from project import settings
print(json.dumps([settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE, settings.DATABASES["default"]["OPTIONS"]]))
"""


def _settings_with(tmp_path: Path, **environ: str) -> tuple[bool, bool, dict[str, object]]:
    ours = {"WEIGHBRIDGE_DATA_DIR": str(tmp_path), "REDIS_URL": "redis://127.0.0.1", **environ}
    ran = subprocess.run(
        [sys.executable, "-c", _SHOW],
        check=True,
        cwd=env.ROOT,
        env={**os.environ, **ours},
        capture_output=True,
        text=True,
        timeout=60,
    )
    session, csrf, options = json.loads(ran.stdout)
    return session, csrf, options


def test_a_silent_database_is_noticed_and_cookies_go_by_plain_http_on_localhost(tmp_path: Path) -> None:
    session, csrf, options = _settings_with(
        tmp_path, DATABASE_URL="postgresql://u@db/w", WEIGHBRIDGE_TRUSTED_ORIGINS=""
    )
    assert (session, csrf) == (False, False)
    bounds = {"connect_timeout": 2, "tcp_user_timeout": 5000, "keepalives_idle": 5, "keepalives_interval": 2}
    assert options.items() >= {**bounds, "keepalives_count": 3}.items()


def test_a_database_url_has_the_last_word_and_https_secures_the_cookies(tmp_path: Path) -> None:
    url = "postgresql://u@db/w?tcp_user_timeout=9000"
    session, csrf, options = _settings_with(tmp_path, DATABASE_URL=url, WEIGHBRIDGE_TRUSTED_ORIGINS="https://a.b")
    assert (session, csrf, options["tcp_user_timeout"], options["keepalives_idle"]) == (True, True, "9000", 5)


def test_every_variable_that_the_readme_or_the_settings_name_is_known() -> None:
    """One that sets something and is told to set nothing would send its reader to another one."""
    written = (env.ROOT / "README.md").read_text() + (env.ROOT / "project/settings.py").read_text()
    named = set(re.findall(r"WEIGHBRIDGE_[A-Z_]*[A-Z]\b(?!_?<)", written))
    assert len(named) > 20
    assert env.misspelt(dict.fromkeys(named, "1"), {*dir(settings), *classes.variables()}) == []
