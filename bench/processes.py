"""What web processes use, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

MIB = 1024 * 1024
_OPEN_STATES = {"01", "08"}  # established, and left by the other end but not closed by this one


@dataclass(frozen=True)
class Memory:
    """Of several processes, on average, in bytes. `private` is what would be free again without the process."""

    private: float
    resident: float


class WebProcesses:
    """Those of one main process, which only watches them."""

    def __init__(self, main_pid: int) -> None:
        self._processes = psutil.Process(main_pid).children()

    def __len__(self) -> int:
        return len(self._processes)

    def cpu_seconds(self) -> float:
        """Of all of them together, user and system, in steps of 10 ms."""
        return float(sum(times.user + times.system for times in (one.cpu_times() for one in self._processes)))

    def memory(self) -> Memory:
        found = [process.memory_full_info() for process in self._processes]
        return Memory(_mean([info.uss for info in found]), _mean([info.rss for info in found]))

    def private_bytes(self) -> float:
        """Of all of them together."""
        return self.memory().private * len(self)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def server_ends(port: int, callers: Collection[int]) -> int:
    """How many connections to `port` from these loopback ports the server has not closed."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = (line.split()[1:4] for line in lines)
    return sum(
        state in _OPEN_STATES and _port(local) == port and _port(remote) in callers for local, remote, state in ends
    )


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
