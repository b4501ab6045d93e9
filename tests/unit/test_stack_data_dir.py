"""A data directory has one launcher at a time, keeps the permissions it came with, and is cleared of leftovers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stack import leftovers
from stack.children import stack_environment
from stack.data_dir import DataDir
from stack.failures import StackError
from tests.waiting import eventually

HOLD = "import sys; from pathlib import Path; from stack.data_dir import DataDir; DataDir(Path(sys.argv[1])).open(); print('held', flush=True); sys.stdin.read()"


def test_a_second_launcher_is_told_who_holds_it_and_may_have_it_after(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdin is not None
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    second = DataDir(tmp_path)
    with pytest.raises(StackError, match=rf"in use by a running stack \(process {first.pid}\)"):
        second.open()
    first.kill()
    first.communicate()
    second.open()
    second.close()


def test_a_new_one_is_closed_to_listing_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    fresh = DataDir(tmp_path / "deep/fresh")
    fresh.open()
    fresh.close()
    assert fresh.path.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
    given = tmp_path / "given"
    given.mkdir(mode=0o750)
    DataDir(given).open()
    assert given.stat().st_mode & 0o777 == 0o750


def test_the_temporary_files_of_the_stack_s_processes_lie_in_it_and_are_cleared(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    data.open()
    environment = stack_environment(os.environ, data.path, None)
    make = [sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"]
    made = Path(subprocess.run(make, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    assert made.parent == data.path / "tmp"
    data.empty("tmp")
    assert not made.exists()
    data.close()


def test_a_place_that_cannot_be_a_directory_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="cannot be used: not a directory"):
        DataDir(tmp_path / "file/data").open()


def test_what_a_killed_stack_left_is_ended_gently_or_else_by_force(tmp_path: Path) -> None:
    """One of the two processes ignores TERM. Neither is a child of the launcher that clears them."""
    environment = {**os.environ, leftovers.MARK: str(tmp_path)}
    gentle = subprocess.Popen(["sleep", "600"], env=environment)
    stubborn_code = "import signal; signal.signal(15, signal.SIG_IGN); print('set', flush=True); signal.pause()"
    stubborn = subprocess.Popen([sys.executable, "-c", stubborn_code], env=environment, stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == b"set\n"
    eventually(
        lambda: set(leftovers.marked(tmp_path)) == {gentle.pid, stubborn.pid}
    )  # a process that starts has no mark yet
    said: list[str] = []
    DataDir(tmp_path).clear_leftovers(list, 0.5, said.append)
    stubborn.stdout.close()
    assert gentle.wait(10) == -signal.SIGTERM
    assert stubborn.wait(10) == -signal.SIGKILL
    assert said == ["Ended 2 processes of an earlier stack that was killed."]


def test_another_data_directory_s_processes_are_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, leftovers.MARK: f"{tmp_path}-other"})
    DataDir(tmp_path).clear_leftovers(list, 0.1, lambda sentence: None)
    assert other.poll() is None
    other.kill()
    other.wait()


def test_one_folder_by_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    names = [tmp_path / "real", tmp_path / "link", tmp_path / "other/../real"]
    assert {DataDir(name).path for name in names} == {tmp_path.resolve() / "real"}
