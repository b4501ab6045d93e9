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
        self._cpu = cpu_seconds()

    def read(self) -> Usage:
        return Usage(time.monotonic() - self._began, cpu_seconds() - self._cpu, _peak_rss_bytes())


def cpu_seconds() -> float:
    """Of this process so far, with the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def so_far(pid: int, cpu_seconds_before: float) -> Usage | None:
    """Of another process, since its CPU time was that; without a run time. None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = sum(
        map(int, fields[11:15])
    )  # utime, stime and those of children it has waited for: what cpu_seconds() counts
    return Usage(0.0, max(0.0, ticks / os.sysconf("SC_CLK_TCK") - cpu_seconds_before), _peak_rss_bytes(pid))


def _forget_peak() -> None:
    """Without this the peak would be that of the process's whole life, of jobs before this one."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _peak_rss_bytes(pid: int | str = "self") -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
