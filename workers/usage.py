"""What one attempt used: run time, CPU time and peak memory of this process, and its CPU-burning children."""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    run_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int | None  # None where the kernel does not tell


class Meter:
    """Started before an attempt, read after it."""

    def __init__(self) -> None:
        _forget_peak()
        self._began = time.monotonic()  # a duration is the child's own, an instant the database's (P36)
        self._cpu = _cpu_seconds()

    def read(self) -> Usage:
        return Usage(time.monotonic() - self._began, _cpu_seconds() - self._cpu, _peak_rss_bytes())


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _forget_peak() -> None:
    """Without this the peak would be that of the process's whole life, of jobs before this one."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _peak_rss_bytes() -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


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
