"""What outlived its keeper is ended or removed, and nothing else is (P16)."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually
from workers import kernel, strays
from workers.celery_fork import Fork
from workers.slots import SharedSlots


@pytest.fixture
def dead() -> str:
    """The mark of a keeper that has ended."""
    process = subprocess.Popen(["sleep", "60"])
    mark = f"{strays._namespace()}:{process.pid}:{kernel.process_started(process.pid)}"
    process.kill()
    process.wait()
    return mark


@pytest.fixture
def left_behind() -> Iterator["list[subprocess.Popen[bytes]]"]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def _elsewhere(mark: str) -> str:
    """The same pid and start, in another PID namespace."""
    return f"1{mark}"


def _carries(mark: str, left_behind: "list[subprocess.Popen[bytes]]") -> int:
    left_behind.append(subprocess.Popen(["sleep", "60"], env={**os.environ, strays.KEEPER_VARIABLE: mark}))
    pid = left_behind[-1].pid
    eventually(lambda: strays.KEEPER_VARIABLE in kernel.environment_of(pid))  # while it becomes sleep, it has none
    return pid


def test_what_carries_a_dead_keepers_mark_is_a_stray(dead: str, left_behind: "list[subprocess.Popen[bytes]]") -> None:
    assert strays._is_stray(_carries(dead, left_behind))
    assert not strays._is_stray(_carries(strays.myself(), left_behind))


def test_what_was_forked_and_became_no_program_carries_the_mark_on_the_memory_it_shares(dead: str) -> None:
    """Its environment is shown as its keeper's was, before there was a mark."""
    for mark, stray in ((dead, True), (strays.myself(), False), (_elsewhere(dead), False)):
        fork = _fork_of_one_who_shares(f"{strays.memory_name().removesuffix(strays.myself())}{mark}")
        assert strays._is_stray(fork.pid) is stray
        fork.kill()
        fork.wait()
    assert strays.memory_name().endswith(strays.myself())


def _fork_of_one_who_shares(name: str) -> Fork:
    memory = SharedSlots.create(1, name)
    os.close(memory.fd)  # what is mapped is enough, as in a process that closes all that it inherits
    return Fork.of(lambda: time.sleep(60))


def test_strays_are_looked_for_until_none_is_found(
    dead: str, left_behind: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may start another while it is being ended."""
    looks = iter([[_carries(dead, left_behind)], [_carries(dead, left_behind)], []])
    monkeypatch.setattr(kernel, "all_pids", lambda: next(looks))
    assert strays.end_those_of_dead_keepers() == 2
    assert [process.wait(10) for process in left_behind] == [-9, -9]


@pytest.mark.parametrize("mark", ["", "7:7", "a:b:c", "::", "1:2"])
def test_what_is_no_mark_makes_no_stray(mark: str, left_behind: "list[subprocess.Popen[bytes]]") -> None:
    assert not strays._is_stray(_carries(mark, left_behind))


def test_a_mark_of_another_namespace_is_left_alone(dead: str, left_behind: "list[subprocess.Popen[bytes]]") -> None:
    """A pid that is free here may be a living keeper there."""
    assert not strays._is_stray(_carries(_elsewhere(dead), left_behind))


def test_a_process_of_another_user_is_left_alone(
    dead: str, left_behind: "list[subprocess.Popen[bytes]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = _carries(dead, left_behind)
    assert kernel.owner_of(pid) == os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert not strays._is_stray(pid)


def test_folders_of_dead_keepers_are_removed_and_no_others(tmp_path: Path, dead: str) -> None:
    marks = {"living": strays.myself(), "dead": dead, "elsewhere": _elsewhere(dead), "odd": "?"}
    for name in marks:
        strays.make_folder(tmp_path / name)
        assert (tmp_path / name / "keeper").read_text() == strays.myself()
        (tmp_path / name / "keeper").write_text(marks[name])
        (tmp_path / name / "7.log").write_text("lines")
    (tmp_path / "unmarked").mkdir()
    assert strays.remove_folders_of_dead_keepers(tmp_path) == 1
    assert {folder.name for folder in tmp_path.iterdir()} == {"living", "elsewhere", "odd", "unmarked"}


def test_where_there_are_no_folders_yet_none_is_removed(tmp_path: Path) -> None:
    assert strays.remove_folders_of_dead_keepers(tmp_path / "nodes") == 0


def test_a_folder_is_its_keepers_alone(tmp_path: Path) -> None:
    strays.make_folder(tmp_path / "nodes" / "one")
    assert (tmp_path / "nodes" / "one").stat().st_mode & 0o777 == 0o700
