"""Processes that outlived their keeper (P16).

A keeper that is killed takes Celery and its children with it, but not what a handler had started: that is orphaned to
init. It carries its keeper's name in its environment, so the next keeper on this machine ends it.
"""

import contextlib
import os
import signal

import structlog

from workers import kernel, usage

log = structlog.get_logger(__name__)

KEEPER_VARIABLE = "WEIGHBRIDGE_KEEPER"  # "<pid>:<start in kernel ticks>", set by the keeper for its children


def myself() -> str:
    pid, started = usage.myself()
    return f"{pid}:{started}"


def end_those_of_dead_keepers() -> int:
    """The number ended."""
    strays = [pid for pid in kernel.all_pids() if pid != os.getpid() and _is_stray(pid)]
    for pid in strays:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            log.warning("stray_ended", pid=pid)
    return len(strays)


def _is_stray(pid: int) -> bool:
    keeper = kernel.environment_of(pid).get(KEEPER_VARIABLE, "")
    keeper_pid, _, started = keeper.partition(":")
    return keeper_pid.isdigit() and started.isdigit() and not kernel.is_alive(int(keeper_pid), int(started))
