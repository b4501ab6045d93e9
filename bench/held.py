"""Callers who wait (`Prefer: wait`) hold connections and no threads: what many of them cost, and how soon it is seen that they left.

Each round: /healthz alone; the callers come, each for a job of its own; /healthz beside them; all leave at once. Then as many submits that
wait, whose jobs are to be withdrawn when their callers leave (P38).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.figures import percentile, ratios, spread
from bench.ground import Ground, wait_until
from bench.load import Connection, drive
from bench.processes import MIB, WebProcesses, server_ends
from bench.tables import milliseconds, shown, table
from bench.ways import HEALTHZ

WAIT = "wait=60"
AT_ONCE = 50  # come before the next ones do: a web process takes no more than 256 that have no thread yet


@dataclass(frozen=True)
class Size:
    """`reads`: of /healthz, one after another on one connection, alone and beside the callers who wait."""

    rounds: int
    callers: int
    reads: int
    web_processes: int = 2


@dataclass(frozen=True)
class Round:
    """Latencies of /healthz in seconds; private memory of all web processes in bytes; how long after the callers left their last
    connection was closed, and the last job of those who submitted was withdrawn, in seconds."""

    alone: tuple[float, ...]
    beside: tuple[float, ...]
    bytes_before: float
    bytes_held: float
    closed_seconds: float
    withdrawn_seconds: float

    @property
    def added_bytes(self) -> float:
        return self.bytes_held - self.bytes_before


@dataclass(frozen=True)
class Report:
    size: Size
    rounds: Sequence[Round]

    def lines(self) -> list[str]:
        callers, first = self.size.callers, self.rounds[0]
        return [
            f"Held: {callers} callers who wait, {self.size.rounds} rounds; medians (lowest to highest round)",
            "",
            *table(("GET /healthz, one connection", "p50 ms", "p99 ms", "p99 ÷ alone"), self._paces()),
            "",
            f"  memory that they add    {first.added_bytes / MIB:.1f} MiB in all web processes the first time,"
            f" {first.added_bytes / callers / 1024:.1f} KiB each",
            f"  after all left, ms      {shown(spread([one.closed_seconds * 1e3 for one in self.rounds]))} until the last connection was closed",
            f"                          {shown(spread([one.withdrawn_seconds * 1e3 for one in self.rounds]))} until the last job of {callers} who had"
            " submitted and waited was withdrawn",
        ]

    def _paces(self) -> list[Sequence[str]]:
        slowest = [(percentile(one.alone, 0.99), percentile(one.beside, 0.99)) for one in self.rounds]
        ratio = ratios([beside for _, beside in slowest], [alone for alone, _ in slowest])
        return [
            _pace("alone", [one.alone for one in self.rounds], ""),
            _pace(f"beside {self.size.callers} who wait", [one.beside for one in self.rounds], shown(ratio, 2)),
        ]


def measured(ground: Ground, size: Size, say: Callable[[str], None] = lambda sentence: None) -> Report:
    """`say` gets a sentence for each round."""
    web = WebProcesses(ground.stack.pid("web"))
    drive(ground.stack.port, HEALTHZ, size.reads, 1, expected=200)
    rounds = []
    for number in range(1, size.rounds + 1):
        say(f"Held, round {number} of {size.rounds} …")
        rounds.append(_round(ground, size, web))
    ground.clear()
    return Report(size, rounds)


def _round(ground: Ground, size: Size, web: WebProcesses) -> Round:
    ground.clear()
    drive(ground.stack.port, ground.submit(ground.waits_in), size.callers, 16, expected=202)
    reads = [ground.read(job_id, WAIT) for job_id in ground.waiting_jobs()]
    alone, bytes_before = _healthz(ground, size), web.private_bytes()
    with _held(ground, reads) as callers:
        bytes_held, beside = web.private_bytes(), _healthz(ground, size)
        left_at = _leave(callers)
    closed_seconds = _until_closed(ground, callers, left_at)
    return Round(alone, beside, bytes_before, bytes_held, closed_seconds, _withdrawn(ground, size))


def _healthz(ground: Ground, size: Size) -> tuple[float, ...]:
    return drive(ground.stack.port, HEALTHZ, size.reads, 1, expected=200).latencies


@contextmanager
def _held(ground: Ground, requests: Sequence[bytes]) -> Iterator[list[Connection]]:
    """A connection for each of them, once all wait."""
    with ExitStack() as connected:
        callers: list[Connection] = []
        for request in requests:
            callers.append(connected.enter_context(ground.connection()))
            callers[-1].send(request)
            if len(callers) % AT_ONCE == 0 or len(callers) == len(requests):
                wait_until(lambda: ground.awaited() >= len(callers), "not all callers who came wait")
        yield callers


def _leave(callers: Sequence[Connection]) -> float:
    """When the first one left, as time.time() counts."""
    left_at = time.time()
    for caller in callers:
        caller.socket.close()
    return left_at


def _until_closed(ground: Ground, callers: Sequence[Connection], left_at: float) -> float:
    ports = {caller.port for caller in callers}
    wait_until(
        lambda: not server_ends(ground.stack.port, ports),
        "connections of callers who left are open",
        look_seconds=0.002,
    )
    return time.time() - left_at


def _withdrawn(ground: Ground, size: Size) -> float:
    """By the database's clock, which is this machine's: so it matters little how often we look."""
    ground.clear()
    with _held(ground, [ground.submit(ground.waits_in, prefer=WAIT)] * size.callers) as callers:
        left_at = _leave(callers)
    wait_until(lambda: ground.withdrawn() >= size.callers, "jobs of callers who left are not withdrawn")
    return ground.last_end() - left_at


def _pace(name: str, rounds: Sequence[Sequence[float]], ratio: str) -> Sequence[str]:
    together = [seconds for one in rounds for seconds in one]
    return (name, milliseconds(percentile(together, 0.50)), milliseconds(percentile(together, 0.99)), ratio)
