"""What the keeper asks of the Linux kernel: process trees, pidfds, orphans."""

import ctypes
import os
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
_READINGS = 10  # of a list that changes all the while
PATIENCE_SECONDS = 2.0  # with a process that a signal has reached already


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(1)


def be_called(name: str) -> None:
    """In lists of processes; at most 15 bytes. Children that it forks are called the same."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NAME, name.encode())


def adopt_orphans() -> None:
    """Have every orphan among our descendants become our child, unless one of them between adopts it itself, instead of init's."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def children_of(pid: int) -> set[int]:
    """Pids of the direct children; empty if the process is gone.

    A list may lack a living child when an older one dies while it is read (proc_pid_task(5)): so two must be alike.
    """
    listed = _listed_children(pid)
    for _ in range(_READINGS):
        again = _listed_children(pid)
        if again == listed:
            break
        listed = again
    return listed


def _listed_children(pid: int) -> set[int]:
    """Each thread has those that it started. Raises OSError if one cannot look at all."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return set().union(*(_started_by(pid, thread) for thread in threads))


def _started_by(pid: int, thread: str) -> set[int]:
    try:
        return {int(word) for word in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()}
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile; its children are another thread's now
        return set()


def end_orphans(spare: int | None = None) -> int:
    """Kill and reap every direct child of ours but `spare`, and what they orphan in turn; the number killed.

    One that a handler started as another user cannot be killed, and stays.
    """
    ended: set[int] = set()
    left_alone: set[int | None] = {spare}
    until = time.monotonic() + PATIENCE_SECONDS
    while (orphans := children_of(os.getpid()) - left_alone) and time.monotonic() < until:
        left_alone |= {pid for pid in orphans if not kill(pid)}
        ended |= {pid for pid in orphans if _reap(pid)}
        time.sleep(0.002)  # the kernel is tearing them down
    return len(ended)


def kill(pid: int) -> bool:
    """False if it is another user's."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def environment_of(pid: int) -> dict[str, str]:
    """Empty for a process that is gone or is somebody else's."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def memory_of(pid: int) -> set[str]:
    """Names of the memfds that it has mapped; none of a process that is gone or is somebody else's."""
    try:
        mapped = Path(f"/proc/{pid}/maps").read_bytes().splitlines()
    except OSError:
        return set()
    files = {line.partition(b"/memfd:")[2].removesuffix(b" (deleted)") for line in mapped}
    return {name.decode(errors="replace") for name in files if name}


def owner_of(pid: int) -> int | None:
    """Its effective user; None for a process that is gone."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def command_of(pid: int) -> list[str]:
    """Its arguments, the program first; empty for a process that is gone."""
    try:
        return [word.decode(errors="replace") for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
    except OSError:
        return []


def all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def process_started(pid: int) -> int:
    """Start of a process in kernel ticks since boot; with its pid it names one process for good.

    Raises OSError if there is none.
    """
    # The command, in brackets, may hold spaces and brackets itself.
    after_command = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    return int(after_command.split()[19])


def myself() -> tuple[int, int]:
    """This process's pid and start."""
    return os.getpid(), process_started(os.getpid())


def is_alive(pid: int, started: int) -> bool:
    """Whether just this process, and not a later one of the same pid, still runs."""
    try:
        return process_started(pid) == started
    except OSError:
        return False


@dataclass(frozen=True)
class Child:
    """A pool child, held by a pidfd: it can be asked and killed without ever meeting a reused pid."""

    pid: int
    started: int
    pidfd: int = field(repr=False)

    @classmethod
    def hold(cls, pid: int) -> "Child | None":
        """None if the process is already gone."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        try:
            return cls(pid, process_started(pid), pidfd)
        except OSError:
            os.close(pidfd)
            return None

    def send(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            pass

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def has_ended(self) -> bool:
        """A pidfd is readable once its process has exited, reaped or not."""
        return bool(select.select([self.pidfd], [], [], 0)[0])

    def await_end(self) -> None:
        select.select([self.pidfd], [], [], PATIENCE_SECONDS)

    def stand_still(self) -> bool:
        """Stop it and wait until it is stopped; False if it ended instead."""
        self.send(signal.SIGSTOP)
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until and not self.has_ended():
            if run_state(self.pid) in "Tt":
                return True
            time.sleep(0.001)  # a stop is a matter of scheduling
        return not self.has_ended()

    def let_go(self) -> None:
        os.close(self.pidfd)


def run_state(pid: int) -> str:
    """One letter, as ps shows it; X for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
