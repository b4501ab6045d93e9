"""Who is let into a class, and when the others should come back: the rules of admission (P2, P5, P9, P10) on a simulated class. No Django.

The arithmetic is that of jobs/capacity.py and the order that of jobs/order.py; the rules themselves stand in jobs/sql/decide_v1.sql too.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from jobs.capacity import (
    RETRY_AFTER_CAP_SECONDS,
    SURE_ENOUGH,
    Room,
    retry_after_seconds,
    start_probability,
    turn_at,
)
from jobs.order import Entry
from workers.simulating.line import QuickLine
from workers.simulating.measures import Departures, RunTimes, WorkLeft
from workers.simulating.traces import Job


@dataclass(frozen=True)
class Limits:
    """Of one class. Durations in seconds; `slots` are the processes of all its nodes."""

    name: str
    slots: int
    max_waiting: int
    max_wait_seconds: float
    max_backlog_seconds: float
    retry_after_seconds: int = 5


@dataclass(frozen=True)
class Refused:
    reason: str
    retry_after_seconds: int


@dataclass
class Door:
    """One class: its line, and what is known of it."""

    limits: Limits
    line: QuickLine = field(init=False)
    drain: Departures = field(default_factory=Departures)
    run_times: RunTimes = field(default_factory=RunTimes)
    work: WorkLeft = field(default_factory=WorkLeft)

    def __post_init__(self) -> None:
        self.line = QuickLine(self.limits.max_wait_seconds)
        self._turns = Turns(max(1, self.limits.max_waiting))

    def submit(self, job: Job, now: float) -> Entry | Refused:
        """What is past its start_by must have left the line before."""
        expected = self.run_times.expected(job.kind, now)
        room = Room(len(self.line.waiting), len(self.line.running), self.limits.slots, self.work.seconds(now))
        reason = self._against(job, now, room, expected)
        if reason is not None:
            return Refused(reason, self._retry_after(job, now, room))
        entry = self.line.admit(
            job.client,
            self.run_times.counts(expected),
            weight=job.weight,
            flow=job.flow,
            priority=job.priority,
            accepted_at=now,
        )
        self.work.wait(entry.sequence, expected or 0.0)
        return entry

    def start_by(self, job: Job, now: float) -> float:
        """After which it is not started any more (P8)."""
        latest = now + self.limits.max_wait_seconds
        if job.deadline_at is None:
            return latest
        return min(latest, job.deadline_at - (self.run_times.expected(job.kind, now) or 0.0))

    def _against(self, job: Job, now: float, room: Room, expected: float | None) -> str | None:
        if job.deadline_at is not None and not self._in_time(job, job.deadline_at - now, expected):
            return "deadline_unreachable"
        if not room.free(self.limits.max_waiting):
            return "queue_full"
        if room.work_seconds / room.slots > self.limits.max_backlog_seconds:
            return "queue_full"
        return None

    def _in_time(self, job: Job, in_seconds: float, expected: float | None) -> bool:
        if expected is None or self.run_times.mean is None:
            return in_seconds > 0
        place = self.line.place(job.client)
        before = [entry.cost_seconds for entry in self.line.waiting.values() if entry.rank <= place]
        before += [entry.cost_seconds for entry in self.line.running.values()]
        departures = len(before) - self.limits.slots + 1
        if departures <= 0:
            return in_seconds > 0
        mean = math.fsum(before) / len(before)
        return start_probability(departures, self.limits.slots, mean, in_seconds - expected) >= SURE_ENOUGH

    def _retry_after(self, job: Job, now: float, room: Room) -> int:
        limits = self.limits
        base = retry_after_seconds(room, limits.max_waiting, self.drain.per_second(now), limits.retry_after_seconds)
        service_seconds = self.run_times.counts(None)
        job.turn_at = self._turns.of(job, now, float(base), service_seconds / limits.slots)
        return max(1, min(math.ceil(job.turn_at - now), RETRY_AFTER_CAP_SECONDS))


class Turns:
    """Of those who are refused (P10). A client holds at most so many; after that it is told its last one again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: float | None = None
        self._held: dict[str, deque[float]] = {}

    def of(self, job: Job, now: float, base_seconds: float, spacing_seconds: float) -> float:
        """The one that it holds already, if it has not come yet."""
        if job.turn_at is not None and job.turn_at > now:
            return job.turn_at
        held = self._held.setdefault(job.client, deque())
        while held and held[0] <= now:
            held.popleft()
        if len(held) >= self._most:
            return held[-1]
        self._last = turn_at(now, base_seconds, self._last, spacing_seconds)
        held.append(self._last)
        return self._last
