"""What the keeper asks of the kernel, asked about real processes (P15)."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually
from workers import kernel
from workers.kernel import Child, children_of, process_started

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_child_is_found_while_it_is_there(sleeper: subprocess.Popen[bytes]) -> None:
    assert sleeper.pid in children_of(os.getpid())
    sleeper.kill()
    sleeper.wait()
    assert sleeper.pid not in children_of(os.getpid())


def test_a_grandchild_is_no_child() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; read _"], stdin=-1, stdout=-1, text=True) as shell:
        assert shell.stdin
        assert shell.stdout
        grandchild = int(shell.stdout.readline())
        assert children_of(shell.pid) == {grandchild}
        assert grandchild not in children_of(os.getpid())
        os.kill(grandchild, 9)
        shell.stdin.close()


def test_a_child_that_one_list_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel's list may, when an older child dies while it is read."""
    lists = iter([{2}, {2, 3}, {2, 3}])
    monkeypatch.setattr(kernel, "_listed_children", lambda pid: next(lists))
    assert children_of(1) == {2, 3}


def test_a_child_is_found_whichever_thread_started_it() -> None:
    started: list[subprocess.Popen[bytes]] = []
    go_on = threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        go_on.wait(30)

    thread = threading.Thread(target=start)
    thread.start()
    try:
        eventually(lambda: started)
        assert started[0].pid in children_of(os.getpid())
    finally:
        go_on.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_where_one_cannot_look_there_may_be_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a descriptor left, say."""

    def refuses(path: object) -> list[str]:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "listdir", refuses)
    with pytest.raises(OSError, match="too many"):
        children_of(os.getpid())


def test_a_process_that_is_gone_has_no_children() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert children_of(process.pid) == set()


def test_a_held_child_is_killed_by_its_handle(sleeper: subprocess.Popen[bytes]) -> None:
    child = Child.hold(sleeper.pid)
    assert child is not None
    assert (child.pid, child.started) == (sleeper.pid, process_started(sleeper.pid))
    child.kill()
    assert sleeper.wait(10) == -9
    child.let_go()


def test_killing_a_child_that_is_gone_hits_nobody(sleeper: subprocess.Popen[bytes]) -> None:
    child = Child.hold(sleeper.pid)
    assert child is not None
    sleeper.kill()
    sleeper.wait()
    child.kill()
    child.let_go()


def test_letting_go_closes_the_handle(sleeper: subprocess.Popen[bytes]) -> None:
    before = _open_files()
    child = Child.hold(sleeper.pid)
    assert child is not None
    assert len(_open_files() - before) == 1
    child.let_go()
    assert _open_files() == before


def test_a_process_that_is_gone_cannot_be_held() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert Child.hold(process.pid) is None


def test_a_child_that_vanishes_while_it_is_taken_leaves_no_handle_behind(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int) -> int:
        raise FileNotFoundError(pid)

    monkeypatch.setattr(kernel, "process_started", gone)
    before = _open_files()
    assert Child.hold(sleeper.pid) is None
    assert _open_files() == before


# A keeper's life in small: an own child that is to be spared, and a child that dies and leaves one behind.
KEEPER = """
import json, os, subprocess, sys, time
from workers import kernel
if {adopts}:
    kernel.adopt_orphans()
spared = subprocess.Popen(["sleep", "60"])
dying = subprocess.Popen(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, text=True)
orphan = int(dying.communicate()[0])
adopted = orphan in kernel.children_of(os.getpid())
killed = kernel.end_orphans(spared.pid)
def there():
    try:
        os.waitpid(orphan, os.WNOHANG)
    except ChildProcessError:
        pass
    return os.path.exists(f"/proc/{{orphan}}")
until = time.monotonic() + 10
while adopted and there() and time.monotonic() < until:
    time.sleep(0.01)
print(json.dumps({{"adopted": adopted, "killed": killed, "orphan": orphan, "orphan_there": there(),
                  "spared_lives": spared.poll() is None}}))
spared.kill()
"""


def _keeper(adopts: bool) -> dict[str, Any]:
    program = KEEPER.format(adopts=adopts)
    ran = subprocess.run([sys.executable, "-c", program], check=True, cwd=CHECKOUT, capture_output=True, timeout=60)
    return dict(json.loads(ran.stdout))


def test_the_orphan_of_a_dead_child_comes_to_the_keeper_and_is_ended() -> None:
    seen = _keeper(adopts=True)
    assert seen["adopted"]
    assert seen["killed"] == 1
    assert not seen["orphan_there"]
    assert seen["spared_lives"]


def test_without_adopting_the_orphan_goes_elsewhere() -> None:
    """The other side: it is the adoption that brings it."""
    seen = _keeper(adopts=False)
    assert not seen["adopted"]
    assert seen["killed"] == 0
    os.kill(seen["orphan"], 9)
    eventually(lambda: _is_dead(seen["orphan"]))


def _is_dead(pid: int) -> bool:
    """Gone, or a zombie that its new parent has not met yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# To kill one of its two children is refused, as if it were another user's.
REFUSED = """
import os, subprocess
from workers import descendants, kernel
foreign, ours = (subprocess.Popen(["sleep", "60"]) for _ in "ab")
kill, tries = os.kill, []
def refused(pid, number):
    if pid == foreign.pid:
        tries.append(pid)
        raise PermissionError
    kill(pid, number)
os.kill = refused
{end}
print(os.path.exists(f"/proc/{{ours.pid}}"), foreign.poll(), len(tries))
kill(foreign.pid, 9)
"""


@pytest.mark.parametrize("end", ["kernel.end_orphans()", "descendants.end_processes(os.getpid())"])
def test_a_process_of_another_user_stops_nobody_from_ending_the_rest(end: str) -> None:
    """A handler may run what changes its user. It is tried once, not all the while that there is patience."""
    program = [sys.executable, "-c", REFUSED.format(end=end)]
    ran = subprocess.run(program, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "False None 1\n"


def test_a_process_is_told_by_its_start_whatever_it_is_called(tmp_path: Path) -> None:
    """The command stands in brackets in /proc/<pid>/stat and may itself hold brackets and spaces."""
    odd = tmp_path / "a) R 1 2 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", odd)
    ticks = os.sysconf("SC_CLK_TCK")
    earliest = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen([odd, "60"]) as process:
        latest = time.clock_gettime(time.CLOCK_BOOTTIME)
        started = kernel.process_started(process.pid)
        process.kill()
    assert earliest * ticks - 2 <= started <= latest * ticks + 2


def test_this_process_knows_itself() -> None:
    assert kernel.myself() == (os.getpid(), kernel.process_started(os.getpid()))


def test_a_process_that_is_gone_has_no_start() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError, match=str(process.pid)):
        kernel.process_started(process.pid)
