"""As root, under folders that only root may enter: the servers run all the same and nobody's permissions are loosened."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack import embedded
from stack.failures import StackError
from stack.local import Stack
from tests import cluster_template

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")

ALL_PROGRAMS = ("web", "worker-light", "worker-heavy", "worker-control", "beat", "flower")
OWN_SERVERS = {"DATABASE_URL": "", "REDIS_URL": "", "WEIGHBRIDGE_JOB_MODULES": ""}


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that only root may enter, with one below it that looks open."""
    closed = Path(tempfile.mkdtemp(prefix="weighbridge-closed-"))
    (closed / "clone").mkdir(mode=0o755)
    yield closed / "clone"
    embedded.forget(closed / "clone/data")
    shutil.rmtree(closed)


def _modes(place: Path) -> dict[Path, tuple[int, int, int]]:
    """Mode, owner and group of a folder and of everything above it."""
    return {folder: _mode(folder) for folder in (place, *place.parents)}


def _mode(folder: Path) -> tuple[int, int, int]:
    found = folder.stat()
    return (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)


def test_a_data_directory_that_only_root_may_enter_keeps_its_permissions(closed_folder: Path) -> None:
    before = _modes(closed_folder)
    stack = Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS)
    with stack:
        home = Path((stack.data_dir / "postgres-home").read_text().strip())
        with psycopg.connect(stack.database_url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        assert Path(f"/proc/{stack.pid('postgres')}").stat().st_uid == home.stat().st_uid != 0
    assert _modes(closed_folder) == before
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert closed_folder not in home.parents
    with stack, psycopg.connect(stack.database_url) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)
    assert _modes(closed_folder) == before


def test_binaries_that_only_root_may_reach_are_copied_to_the_servers_user(
    closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a whole clone under such a folder, whose .venv holds the binaries."""
    install = closed_folder / "pginstall"
    shutil.copytree(embedded._postgres_install(), install, symlinks=True)
    valkey = closed_folder / "valkey/valkey-server"
    valkey.parent.mkdir()
    shutil.copy2(embedded._valkey_binary(), valkey)
    monkeypatch.setattr(embedded, "_postgres_install", lambda: install)
    monkeypatch.setattr(embedded, "_valkey_binary", lambda: valkey)
    monkeypatch.setattr(embedded, "_make_cluster", cluster_template.make_cluster)
    before = _modes(install / "bin")
    stack = Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS)
    with stack, psycopg.connect(stack.database_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        home = embedded.known_home(stack.data_dir)
        for name in ("postgres", "valkey"):
            assert home in Path(f"/proc/{stack.pid(name)}/exe").readlink().parents
    assert _modes(install / "bin") == before


def test_a_home_left_by_a_deleted_data_directory_is_replaced(closed_folder: Path) -> None:
    stack = Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS)
    with stack, psycopg.connect(stack.database_url) as connection:
        connection.execute("CREATE TABLE old AS SELECT 1")
    shutil.rmtree(stack.data_dir)
    said: list[str] = []
    again = Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS, say=said.append)
    with again, psycopg.connect(again.database_url) as connection:
        assert connection.execute("SELECT to_regclass('old')").fetchone() == (None,)
    assert any("left by an earlier data directory" in sentence for sentence in said)


def test_erasing_a_stack_leaves_nothing_anywhere(closed_folder: Path) -> None:
    stack = Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS)
    stack.start()
    home = embedded.known_home(stack.data_dir)
    assert home.is_dir()
    stack.erase()
    assert not home.exists()
    assert not stack.data_dir.exists()


def test_a_folder_of_somebody_else_in_the_home_s_place_is_refused_and_left_alone(
    closed_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "HOMES_OUTSIDE", tmp_path)
    home = embedded.outside_home(closed_folder / "data")
    home.mkdir()
    (home / "theirs").touch()
    os.chown(home, 12345, 12345)
    with pytest.raises(StackError, match="belongs to somebody else"):
        Stack(closed_folder / "data", OWN_SERVERS, without=ALL_PROGRAMS).start()
    assert (home / "theirs").exists()
    assert _mode(home)[1:] == (12345, 12345)
