"""How many processors this process may really use: the scheduler's mask, cut by the cgroup's quota."""

import math
import os
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """Whole cores, at least 1."""
    return max(1, min(_allowed_by_affinity(), _allowed_by_quota(_read_quota())))


def _allowed_by_affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_quota() -> str:
    try:
        return CPU_MAX.read_text()
    except OSError:
        return "max 100000"


def _allowed_by_quota(cpu_max: str) -> int:
    """`cpu_max` is cgroup v2's line "<quota|max> <period>", both in microseconds."""
    quota, _, period = cpu_max.strip().partition(" ")
    if quota == "max":
        return 1_000_000
    return math.ceil(int(quota) / int(period or 100_000))
