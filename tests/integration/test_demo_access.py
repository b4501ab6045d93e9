"""`manage.py demo_access`: a key and a password that only their owner can read, made once."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import call_command
from django.db.models.functions import Now

from jobs import keys
from jobs.models import ApiClient, ApiKey
from tests.in_process_api import InProcessApi

pytestmark = pytest.mark.django_db


@pytest.fixture
def data(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """A data directory that does not exist yet, under the widest umask there is."""
    settings.WEIGHBRIDGE_DATA_DIR = tmp_path / "data"
    old = os.umask(0)
    yield settings.WEIGHBRIDGE_DATA_DIR
    os.umask(old)


def _files(data: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in data.iterdir()}


def test_both_secrets_are_written_for_their_owner_only(data: Path) -> None:
    call_command("demo_access")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in data.iterdir()}
    assert modes == {"demo-key": 0o600, "admin-password": 0o600}


def test_a_file_that_everybody_could_read_is_replaced_by_one_that_only_its_owner_can(data: Path) -> None:
    data.mkdir()
    (data / "demo-key").write_text("old\n")
    assert stat.S_IMODE((data / "demo-key").stat().st_mode) == 0o666
    call_command("demo_access")
    assert stat.S_IMODE((data / "demo-key").stat().st_mode) == 0o600


def test_the_key_opens_everything_there_is(data: Path) -> None:
    call_command("demo_access")
    key = keys.live_key((data / "demo-key").read_text().strip())
    assert key is not None
    assert key.client.name == "demo"
    assert sorted(key.scopes) == sorted(keys.ALL_SCOPES)


def test_the_key_submits_a_job(data: Path) -> None:
    call_command("demo_access")
    api = InProcessApi()
    api.key = (data / "demo-key").read_text().strip()
    assert api.job(api.submit())["state"] == "queued"


def test_the_password_is_that_of_a_superuser(data: Path) -> None:
    call_command("demo_access")
    user: Any = authenticate(username="admin", password=(data / "admin-password").read_text().strip())
    assert user is not None
    assert (user.is_staff, user.is_superuser, user.is_active) == (True, True, True)


def test_a_second_run_changes_nothing(data: Path) -> None:
    call_command("demo_access")
    before = _files(data)
    call_command("demo_access")
    assert _files(data) == before
    assert (ApiClient.objects.count(), ApiKey.objects.count(), get_user_model().objects.count()) == (1, 1, 1)


def test_a_lost_key_is_written_anew_and_works(data: Path) -> None:
    call_command("demo_access")
    before = _files(data)
    (data / "demo-key").unlink()
    call_command("demo_access")
    after = _files(data)
    assert {name for name in before if before[name] != after[name]} == {"demo-key"}
    assert keys.live_key(after["demo-key"].strip())


@pytest.mark.parametrize("kept", [None, "", "of another database"])
def test_an_account_that_was_there_before_is_left_alone_and_a_sentence_says_so(
    data: Path, kept: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """An `admin` of a team's own database, who is no superuser and stays none."""
    users: Any = get_user_model().objects
    users.create_user("admin", password="their own")
    before = users.values().get()
    data.mkdir()
    if kept is not None:
        (data / "admin-password").write_text(kept)
    call_command("demo_access")
    assert users.values().get() == before
    assert _files(data).get("admin-password") == kept
    said = capfd.readouterr().err
    assert "The account 'admin' was there before and is left as it is" in said
    assert len(said.splitlines()) == 1


def test_a_password_that_was_changed_since_stays_changed(data: Path) -> None:
    call_command("demo_access")
    user: Any = get_user_model().objects.get()
    user.set_password("changed")
    user.save()
    call_command("demo_access")
    assert authenticate(username="admin", password="changed")


def test_an_account_whose_password_cannot_be_kept_is_not_made(data: Path) -> None:
    (data / "admin-password").mkdir(parents=True)  # a folder, which no file replaces
    with pytest.raises(IsADirectoryError):
        call_command("demo_access")
    assert not get_user_model().objects.exists()


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
def test_a_key_that_no_longer_works_is_replaced(data: Path, column: str) -> None:
    call_command("demo_access")
    before = _files(data)
    ApiKey.objects.update(**{column: Now()})
    call_command("demo_access")
    assert _files(data)["demo-key"] != before["demo-key"]
    assert keys.live_key(_files(data)["demo-key"].strip())


def test_nothing_secret_is_printed(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    call_command("demo_access")
    said = "".join(capfd.readouterr())
    assert not any(secret.strip() in said for secret in _files(data).values())
