"""Processes that a stack left behind when it was killed, or that outlived its stop: found by a mark, and ended.

Every process of a stack carries WEIGHBRIDGE_STACK=<data directory> in its environment; children inherit it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

MARK = "WEIGHBRIDGE_STACK"


def marked(data_dir: Path) -> list[int]:
    """The pids, other than ours, that belong to the stack of this data directory."""
    wanted = os.fsencode(f"{MARK}={data_dir}")
    return [pid for pid in _pids() if pid != os.getpid() and wanted in _environment(pid)]


def _pids() -> Iterable[int]:
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def _environment(pid: int) -> list[bytes]:
    """Empty for other people's processes, zombies and those that have just gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end(find: Callable[[], list[int]], gentle: signal.Signals, patience_seconds: float) -> int:
    """Signal what `find` finds, kill what is still there after the patience; returns how many there were."""
    found = find()
    _signal_all(found, gentle)
    if not _gone(find, patience_seconds):
        _signal_all(find(), signal.SIGKILL)
        _gone(find, 5.0)
    return len(found)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _gone(find: Callable[[], list[int]], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while find():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
