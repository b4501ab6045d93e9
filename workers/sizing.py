"""How many worker processes a machine has memory and cores for. Pure; memory in MiB.

A worker node is its keeper and Celery's parent process, and under them the processes that run jobs. What the operating system,
the web and the rest of the machine need is the headroom.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path

HEADROOM = 0.15  # of the memory; a machine that swaps is late with everything
PARENT_MIB = (
    180.0  # a keeper and Celery's parent: 134 MiB here beside three other nodes, 207 with all the pages that they share
)
MEMORY_MAX = Path("/sys/fs/cgroup/memory.max")
MIB = 2**20
WEB_CORES = 1  # what the web needs beside the workers; the default of a heavy class leaves as much


@dataclass(frozen=True)
class Memory:
    """What there is (limit_mib), what one worker node needs before any job, and what one of its processes needs at its peak."""

    limit_mib: float
    child_mib: float
    parent_mib: float = PARENT_MIB
    headroom: float = HEADROOM

    def __post_init__(self) -> None:
        for name in ("limit_mib", "child_mib"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value!r}, but must be a number of MiB above 0.")

    @property
    def processes(self) -> int:
        """How many fit; never negative."""
        return max(0, math.floor((self.limit_mib * (1 - self.headroom) - self.parent_mib) / self.child_mib))


def processes_for_cores(cores: int, web_cores: int = WEB_CORES) -> int:
    """How many processes can compute at once and leave the web its cores; at least one."""
    return max(1, cores - web_cores)


def usable_memory_mib() -> float:
    """What this machine has, or this container may use if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, _allowed_by_cgroup(machine)) / MIB


def _allowed_by_cgroup(machine_bytes: int) -> int:
    """cgroup v2's file says a number of bytes, or max."""
    try:
        allowed = MEMORY_MAX.read_text().strip()
    except OSError:
        return machine_bytes
    return machine_bytes if allowed == "max" else int(allowed)
