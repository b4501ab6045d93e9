"""What the keeper asks of the Linux kernel: process trees, pidfds, orphans."""

import ctypes
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from workers.usage import process_started

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(1)


def adopt_orphans() -> None:
    """Have every orphan among our descendants become our child instead of init's."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def children_of(pid: int) -> set[int]:
    """Pids of the direct children; empty if the process is gone."""
    try:
        return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except OSError:
        return set()


def end_orphans(spare: int) -> int:
    """Kill and reap every direct child of ours but `spare`; the number killed."""
    orphans = children_of(os.getpid()) - {spare}
    for pid in orphans:
        _kill_and_reap(pid)
    return len(orphans)


def _kill_and_reap(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)  # what is not reaped now is at the next beat
    except (ProcessLookupError, ChildProcessError):
        pass


@dataclass
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

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def let_go(self) -> None:
        os.close(self.pidfd)
