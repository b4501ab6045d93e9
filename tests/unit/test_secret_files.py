"""Files for secrets: their owner's alone from the first moment, replaced in one step, nothing left beside them."""

import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.secret_files import kept_secret, read_secret, write_private


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The widest there is, so that only the code keeps a file closed."""
    old = os.umask(0)
    yield
    os.umask(old)


def _modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    made = kept_secret(tmp_path / "secret")
    assert len(made) == 32
    assert kept_secret(tmp_path / "secret") == made == read_secret(tmp_path / "secret")
    assert _modes(tmp_path) == {"secret": 0o600}


def test_an_empty_file_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(0o666)
    assert read_secret(tmp_path / "secret") == ""
    assert kept_secret(tmp_path / "secret") == read_secret(tmp_path / "secret") != ""
    assert _modes(tmp_path) == {"secret": 0o600}


def test_whoever_comes_second_takes_the_first_one_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_after_another_s(size: int) -> str:
        write_private(tmp_path / "secret", "first\n")
        return "second"

    monkeypatch.setattr(secrets, "token_urlsafe", made_after_another_s)
    assert kept_secret(tmp_path / "secret") == "first"
    assert _modes(tmp_path) == {"secret": 0o600}


@pytest.mark.parametrize("draft", ["secret.new", f"secret.{os.getpid()}"], ids=["new", "of this process"])
def test_a_draft_that_others_may_read_is_never_written_into(tmp_path: Path, draft: str) -> None:
    """One laid there beforehand, under a name that could be guessed, by somebody who then holds it open."""
    (tmp_path / draft).touch(0o666)
    with (tmp_path / draft).open() as held:
        write_private(tmp_path / "secret", "hidden\n")
        assert held.read() == ""
    assert _modes(tmp_path)["secret"] == 0o600


def test_a_file_is_replaced_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("old\n")
    with (tmp_path / "secret").open() as held:
        write_private(tmp_path / "secret", "new\n")
        assert held.read() == "old\n"
    assert read_secret(tmp_path / "secret") == "new"
    assert _modes(tmp_path) == {"secret": 0o600}


def test_a_draft_that_cannot_be_finished_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "secret", "hidden\n")
    assert list(tmp_path.iterdir()) == []
