"""The embedded servers: behind passwords, durable, on loopback only, whole again after every kind of accident."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from stack import embedded, leftovers
from stack.failures import StackError
from stack.local import Stack
from stack.supervision import Supervisor
from tests import cluster_template
from tests.waiting import eventually

ALL_PROGRAMS = ("web", "worker-light", "worker-heavy", "worker-control", "beat", "flower")
OWN_SERVERS = {"DATABASE_URL": "", "REDIS_URL": "", "WEIGHBRIDGE_JOB_MODULES": ""}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-embedded-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def _servers(data_dir: Path, **environ: str) -> Stack:
    return Stack(data_dir, {**OWN_SERVERS, **environ}, without=ALL_PROGRAMS)


@pytest.fixture(scope="module")
def servers() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-embedded-"))
    folder.chmod(0o711)
    stack = _servers(folder / "data")
    with stack:
        yield stack
    shutil.rmtree(folder)


def _processes(data_dir: Path) -> list[int]:
    return leftovers.marked(data_dir) + embedded.server_pids(embedded.known_home(data_dir))


def _port(url: str) -> int:
    match = re.search(r":(\d+)/", url)
    assert match
    return int(match[1])


# --- what they are --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("password", ["", "wrong"])
@pytest.mark.parametrize("user", ["weighbridge", "postgres"])
def test_postgresql_lets_nobody_in_without_the_password(servers: Stack, user: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(
            host="127.0.0.1",
            port=_port(servers.database_url),
            user=user,
            password=password,
            dbname="weighbridge",
            passfile="/dev/null",
        )


def test_our_role_can_get_in_make_databases_and_is_no_superuser(servers: Stack) -> None:
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute("SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row == (False, True)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_valkey_answers_nobody_without_the_password(servers: Stack, password: str | None) -> None:
    with (
        redis.Redis(port=_port(servers.redis_url), password=password) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("listen_addresses", "127.0.0.1"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        # A failing statement's text holds params.
        ("log_min_error_statement", "panic"),
        ("log_error_verbosity", "terse"),
    ],
)
def test_postgresql_is_durable_on_loopback_and_discreet(servers: Stack, setting: str, value: str) -> None:
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute("SELECT current_setting(%s)", (setting,)).fetchone()
    assert row == (value,)


def test_postgresql_has_no_unix_socket(servers: Stack) -> None:
    lines = (embedded.known_home(servers.data_dir) / "postgres/postmaster.pid").read_text().splitlines()
    assert lines[4] == ""  # the directory of the socket


def test_values_of_a_failing_statement_do_not_reach_the_log(servers: Stack) -> None:
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("CREATE TEMP TABLE t (n int CHECK (n < 10), word text)")
        for statement in ("INSERT INTO t VALUES (11, 'precious')", "SELECT 'precious'::text FROM nowhere_there"):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode())
    log = eventually(lambda: "nowhere_there" in (text := servers.log("postgres").read_text()) and text)
    assert log
    assert "precious" not in log


def test_both_listen_on_loopback_alone(servers: Stack) -> None:
    """From the kernel's own list: the local address of every listener on their ports."""
    ports = {_port(servers.database_url), _port(servers.redis_url)}
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    listeners = [local.split(":") for _, local, _, state, *_ in rows if state == "0A"]
    found = {(int(port, 16), address) for address, port in listeners if int(port, 16) in ports}
    assert found == {(port, "0100007F") for port in ports}


def test_secrets_are_their_owner_s_alone_and_in_no_argument_list(servers: Stack) -> None:
    names = ["postgres-password", "valkey-password", "flower-password", "supervisor-password", "secret-key"]
    files = [servers.data_dir / name for name in [*names, "supervisor.conf", "addresses.json"]]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    secrets = [
        file.read_text().strip().encode() for file in files if file.suffix == "" and file.name != "supervisor.conf"
    ]
    command_lines = b"".join(
        file.read_bytes() for pid in _processes(servers.data_dir) if (file := _cmdline(pid)).exists()
    )
    assert command_lines
    assert not [secret for secret in secrets if secret in command_lines]


def _cmdline(pid: int) -> Path:
    return Path(f"/proc/{pid}/cmdline")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")
def test_started_by_root_no_server_runs_as_root(servers: Stack) -> None:
    for name in ("postgres", "valkey"):
        assert Path(f"/proc/{servers.pid(name)}").stat().st_uid != 0


def test_a_second_stack_on_the_same_data_directory_is_refused_with_the_pid(servers: Stack) -> None:
    with pytest.raises(StackError, match=rf"in use by a running stack \(process {os.getpid()}\)"):
        _servers(servers.data_dir).start()
    assert servers.programs() == {"postgres": "RUNNING", "valkey": "RUNNING"}


# --- from start to start --------------------------------------------------------------------------------------------


def test_data_and_ports_outlast_a_restart_and_a_taken_port_is_replaced(open_folder: Path) -> None:
    data_dir = open_folder / "given"
    data_dir.mkdir(mode=0o755)  # an existing empty one is fine
    with _servers(data_dir) as stack:
        first = (stack.database_url, stack.redis_url)
        with psycopg.connect(stack.database_url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    assert _processes(data_dir) == []
    assert not (data_dir / "addresses.json").exists()
    with _servers(data_dir) as stack:
        assert (stack.database_url, stack.redis_url) == first
    with socket.socket() as intruder:
        intruder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        intruder.bind(("127.0.0.1", _port(first[0])))
        intruder.listen()
        with _servers(data_dir) as stack:
            assert _port(stack.database_url) != _port(first[0])
            assert stack.redis_url == first[1]
            with psycopg.connect(stack.database_url) as connection:
                assert connection.execute("SELECT n FROM kept").fetchone() == (42,)
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o755


def test_a_half_made_cluster_is_made_anew_and_a_lost_password_replaced(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = open_folder / "data"
    with _servers(data_dir) as stack:
        old = stack.database_url
    home = embedded.known_home(data_dir)
    (data_dir / "postgres-password").unlink()
    with _servers(data_dir) as stack:
        assert stack.database_url != old
    # As initdb leaves it when it is killed: under the other name, some files there.
    (home / "postgres").rename(home / "postgres.new")
    (home / "postgres.new/PG_VERSION").unlink()
    monkeypatch.setattr(embedded, "_make_cluster", cluster_template.make_cluster)
    with _servers(data_dir) as stack, psycopg.connect(stack.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not (home / "postgres.new").exists()


@pytest.mark.parametrize(("version", "says"), [("16\n", "was made by PostgreSQL 16"), (None, "it has no PG_VERSION")])
def test_a_cluster_that_is_not_ours_to_run_gets_a_sentence_and_is_left_alone(
    open_folder: Path, version: str | None, says: str
) -> None:
    data_dir = open_folder / "data"
    cluster = data_dir / "servers/postgres"
    cluster.mkdir(parents=True)
    for folder in (data_dir, data_dir / "servers", cluster):
        folder.chmod(0o711)
    if os.geteuid() == 0:
        owner = embedded.owner_of_servers()
        os.chown(data_dir / "servers", owner.uid, owner.gid)
    if version:
        (cluster / "PG_VERSION").write_text(version)
    before = sorted(item.name for item in cluster.iterdir())
    with pytest.raises(StackError, match=says):
        _servers(data_dir).start()
    assert sorted(item.name for item in cluster.iterdir()) == before
    assert _processes(data_dir) == []


def test_a_wrong_setting_is_told_before_anything_is_started_or_made(open_folder: Path) -> None:
    data_dir = open_folder / "data"
    with pytest.raises(StackError) as failure:
        _servers(data_dir, WEIGHBRIDGE_LIGHT_PROCESSES="zero").start()
    assert str(failure.value).startswith("WEIGHBRIDGE_LIGHT_PROCESSES is 'zero'")
    assert "\n" not in str(failure.value)
    assert not (data_dir / "servers").exists()


def test_with_one_address_given_only_the_other_server_is_started(servers: Stack, open_folder: Path) -> None:
    stack = _servers(open_folder / "data", DATABASE_URL=servers.database_url)
    with stack:
        assert list(stack.programs()) == ["valkey"]
        assert stack.database_url == servers.database_url
        assert stack.redis_url != servers.redis_url
    assert servers.programs()["postgres"] == "RUNNING"


def test_a_redis_that_refuses_our_password_is_told_without_it(servers: Stack, open_folder: Path) -> None:
    address = f"redis://:precious@127.0.0.1:{_port(servers.redis_url)}/0"
    with pytest.raises(StackError, match=r"^Redis at 127\.0\.0\.1:\d+ \(REDIS_URL\) refuses us: ") as failure:
        _servers(open_folder / "data", REDIS_URL=address).start()
    assert "precious" not in str(failure.value)


# --- accidents ------------------------------------------------------------------------------------------------------

START = """
import os, sys, time
from pathlib import Path
from stack.local import Stack
stack = Stack(Path(sys.argv[1]), {"DATABASE_URL": "", "REDIS_URL": ""}, without=sys.argv[2].split(","))
stack.start()
print((stack.data_dir / "supervisord.pid").read_text().strip(), flush=True)
sys.stdin.read()
"""


def _start_elsewhere(data_dir: Path) -> tuple[subprocess.Popen[str], int]:
    """A launcher in a process of its own, and the pid of its process manager."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", START, str(data_dir), ",".join(ALL_PROGRAMS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout is not None
    return launcher, int(launcher.stdout.readline())


def test_a_launcher_that_is_killed_takes_its_servers_with_it_in_order(open_folder: Path) -> None:
    data_dir = open_folder / "data"
    launcher, _ = _start_elsewhere(data_dir)
    launcher.kill()
    launcher.communicate()
    eventually(lambda: _processes(data_dir) == [], within_seconds=30)
    assert "database system is shut down" in (data_dir / "logs/postgres.log").read_text()


def test_after_launcher_and_process_manager_are_killed_the_next_start_cleans_up(open_folder: Path) -> None:
    data_dir = open_folder / "data"
    launcher, manager = _start_elsewhere(data_dir)
    # Stopped first, so that it cannot begin an orderly end when its launcher dies.
    os.kill(manager, signal.SIGSTOP)
    launcher.kill()
    launcher.communicate()
    os.kill(manager, signal.SIGKILL)
    orphans = eventually(lambda: embedded.server_pids(embedded.known_home(data_dir)))
    assert len(orphans) == 2
    said: list[str] = []
    with Stack(data_dir, OWN_SERVERS, without=ALL_PROGRAMS, say=said.append) as stack:
        assert not set(orphans) & {stack.pid("postgres"), stack.pid("valkey")}
    assert any("of an earlier stack that was killed" in sentence for sentence in said)
    assert _processes(data_dir) == []


def test_a_stop_ends_everything_even_without_the_process_manager(open_folder: Path) -> None:
    stack = _servers(open_folder / "data")
    stack.start()
    os.kill(int((stack.data_dir / "supervisord.pid").read_text()), signal.SIGKILL)
    stack.stop()
    stack.stop()
    assert _processes(stack.data_dir) == []


def test_a_start_that_fails_half_way_leaves_no_process(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Supervisor, name: str) -> None:
        raise StackError("as if it had failed")

    monkeypatch.setattr(Supervisor, "start_program", fail)
    with pytest.raises(StackError, match="as if it had failed"):
        _servers(open_folder / "data").start()
    assert _processes(open_folder / "data") == []


def test_ports_file_holds_every_port_but_the_web_s(servers: Stack) -> None:
    kept = json.loads((servers.data_dir / "ports.json").read_text())
    assert {"postgres", "valkey", "supervisor", "flower"} <= set(kept)
