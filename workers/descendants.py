"""What a handler left behind: processes and threads. They end with the job (P21)."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Collection

from workers.kernel import children_of, kill

PATIENCE_SECONDS = 1.0


def end_processes(root: int) -> int:
    """Kill every descendant of `root`, and reap its own children; the number killed.

    One that the handler started as another user cannot be killed, and stays.
    """
    killed: set[int] = set()
    left_alone: set[int] = set()
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := _descendants(root) - left_alone) and time.monotonic() < until:
        left_alone |= {pid for pid in found if not kill(pid)}
        killed |= found - left_alone
        _reap()
        if _descendants(root) - left_alone:
            time.sleep(0.01)  # they are being torn down by the kernel
    return len(killed)


def _descendants(root: int) -> set[int]:
    direct = children_of(root)
    return direct.union(*(_descendants(pid) for pid in direct))


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def threads() -> set[int]:
    """Of this process, by their identifiers: all that run Python, also those that `threading` does not know."""
    return set(sys._current_frames())


def threads_besides(known: Collection[int]) -> list[str]:
    """Names of threads that run and were not there before the job."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [names.get(ident, "a bare thread") for ident in sorted(threads() - set(known))]
