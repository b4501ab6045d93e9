"""How long after a job's end its caller knows of it: one that waits (`Prefer: wait`), and one that asks once a second.

The end is `finished_at`, which the settle's statement takes from the database's clock just before its commit, so the commit is part of every
figure. The caller's instant is taken when it holds the last byte. Both clocks are this machine's real-time clock, which is why the database has to be
the embedded one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench.figures import percentile
from bench.ground import Ground
from bench.load import Connection, Unexpected, drive
from bench.tables import milliseconds, table
from jobs.states import TERMINAL

POLL_SECONDS = 1.0
# Long enough that the caller waits already when the job ends, and never in step with anything.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 0.15


@dataclass(frozen=True)
class Size:
    """Per round: `waits` one after another, then `polls` at once, which should be no more than the class has processes."""

    rounds: int
    waits: int
    polls: int
    reads: int = 100


@dataclass(frozen=True)
class Report:
    """Seconds from a job's end to its caller; and those of one plain read of a job that has ended, for comparison."""

    waited: Sequence[float]
    polled: Sequence[float]
    read: Sequence[float]

    def lines(self) -> list[str]:
        headings = ("Waiting: from the end of a job to its caller", "jobs", "p50 ms", "p99 ms", "slowest ms")
        return [
            *table(
                headings,
                [
                    _row("the caller waits", self.waited),
                    _row(f"the caller asks every {POLL_SECONDS:g} s", self.polled),
                    _row("(a plain read of a job, by itself)", self.read),
                ],
            ),
            "  of the last row: reads, not jobs; the others include the commit of the end",
        ]


def measured(ground: Ground, size: Size, say: Callable[[str], None] = lambda sentence: None) -> Report:
    """`say` gets a sentence for each round."""
    _waited(ground)  # its web process has listened for no notices yet
    waited: list[float] = []
    polled: list[float] = []
    for number in range(1, size.rounds + 1):
        say(f"Waiting, round {number} of {size.rounds} …")
        waited += [_waited(ground) for _ in range(size.waits)]
        with ThreadPoolExecutor(size.polls) as callers:
            polled += list(callers.map(_polled, [ground] * size.polls))
    return Report(waited, polled, _reads(ground, size))


def _waited(ground: Ground) -> float:
    seconds = random.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
    with ground.connection() as connection:
        answer = connection.ask(ground.submit(ground.runs_in, seconds, prefer="wait=20"))
        held_at = time.time()
    if answer.status != 200:
        raise Unexpected(f"A submit that waits was answered {answer.status}: {answer.body[:300]!r}.")
    return held_at - ground.ended_at(answer.json()["id"])


def _polled(ground: Ground) -> float:
    """The job's length falls anywhere between two questions."""
    with ground.connection() as connection:
        job_id = _submitted(ground, connection, random.uniform(0, POLL_SECONDS))
        held_at = _asked_until_it_ended(ground, connection, job_id)
    return held_at - ground.ended_at(job_id)


def _submitted(ground: Ground, connection: Connection, sleep_seconds: float) -> str:
    answer = connection.ask(ground.submit(ground.runs_in, sleep_seconds))
    if answer.status != 202:
        raise Unexpected(f"A submit was answered {answer.status}: {answer.body[:300]!r}.")
    return str(answer.json()["id"])


def _asked_until_it_ended(ground: Ground, connection: Connection, job_id: str) -> float:
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        answer, held_at = connection.ask(ground.read(job_id)), time.time()
        if answer.json()["state"] in TERMINAL:
            return held_at
    raise Unexpected(f"The job {job_id} did not end.")


def _reads(ground: Ground, size: Size) -> Sequence[float]:
    with ground.connection() as connection:
        answer = connection.ask(ground.submit(ground.runs_in, prefer="wait=20"))
    return drive(ground.stack.port, ground.read(answer.json()["id"]), size.reads, 1, expected=200).latencies


def _row(name: str, seconds: Sequence[float]) -> Sequence[str]:
    figures = (percentile(seconds, 0.50), percentile(seconds, 0.99), max(seconds))
    return (name, str(len(seconds)), *map(milliseconds, figures))
