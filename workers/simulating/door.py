"""Who is let into a class, and when the others should come back, of a simulated class. No Django.

The decision is jobs/decision.py, which the database is held against, its arithmetic that of jobs/capacity.py and the order that of jobs/order.py.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from jobs.capacity import RETRY_AFTER_CAP_SECONDS, Room, departures_per_second, retry_after_seconds, turn_at
from jobs.decision import Ahead, Asked, Bounds, Decision, decide, share_retry_after_seconds
from jobs.order import Entry
from jobs.refused_lately import WANT_ROOM
from workers.simulating.line import QuickLine
from workers.simulating.measures import Departures, RunTimes, WorkLeft
from workers.simulating.present import Present
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

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.max_waiting, self.max_backlog_seconds, self.slots)


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
    present: Present = field(default_factory=Present)

    def __post_init__(self) -> None:
        self.line = QuickLine(self.limits.max_wait_seconds)
        self._turns = Turns(max(1, self.limits.max_waiting))
        self._own_turns: dict[str, Turns] = {}

    def submit(self, job: Job, now: float) -> Entry | Refused:
        """What is past its start_by must have left the line before."""
        expected = self.run_times.expected(job.kind, now)
        room = Room(len(self.line.waiting), len(self.line.running), self.limits.slots, self.work.seconds(now))
        decision = self._decide(job, now, room, expected)
        if decision.verdict == "admitted" or decision.verdict in WANT_ROOM:
            self.present.came(job.client, job.weight, now)
        if decision.verdict != "admitted":
            return Refused(decision.verdict, self._retry_after(job, now, room, decision))
        entry = self.line.admit(
            job.client,
            self.run_times.counts(expected),
            weight=job.weight,
            flow=job.flow,
            priority=job.priority,
            accepted_at=now,
        )
        self.work.wait(entry.sequence, expected or 0.0)
        self.present.wait(job.client, entry.sequence, expected or 0.0)
        return entry

    def start_by(self, job: Job, now: float) -> float:
        """After which it is not started any more (P8)."""
        latest = now + self.limits.max_wait_seconds
        if job.deadline_at is None:
            return latest
        return min(latest, job.deadline_at - (self.run_times.expected(job.kind, now) or 0.0))

    def start(self, now: float) -> Entry | None:
        """The next job, if a slot is free and one waits."""
        if len(self.line.running) >= self.limits.slots:
            return None
        entry = self.line.claim()
        if entry is not None:
            self.work.start(entry.sequence, now)
            self.present.start(entry.client, entry.sequence, now)
        return entry

    def finish(self, job: Job, sequence: int, now: float) -> None:
        self.line.finish(sequence)
        self.work.finish(sequence)
        self.present.finish(job.client, sequence, now)
        self.run_times.note(job.kind, now - job.started_at)
        self.drain.note(now, job.accepted_at)

    def expire(self, job: Job, sequence: int, at: float) -> None:
        self.line.cancel(sequence)
        self.work.leave_line(sequence)
        self.present.leave_line(job.client, sequence, at)
        self.drain.note(at, job.accepted_at)

    def _decide(self, job: Job, now: float, room: Room, expected: float | None) -> Decision:
        standing = self.present.standing(job.client, job.weight, now)
        if job.deadline_at is None:
            return decide(Asked(None, expected), room, self.limits.bounds, standing)
        asked = Asked(job.deadline_at - now, expected)
        return decide(asked, room, self.limits.bounds, standing, self._ahead(job))

    def _ahead(self, job: Job) -> Ahead:
        place = self.line.place(job.client)
        before = [entry.cost_seconds for entry in self.line.waiting.values() if entry.rank <= place]
        before += [entry.cost_seconds for entry in self.line.running.values()]
        known = self.run_times.mean is not None and bool(before)
        return Ahead(len(before), math.fsum(before) / len(before) if known else None)

    def _retry_after(self, job: Job, now: float, room: Room, decision: Decision) -> int:
        """Who has its share is sent to turns of its own: the class's are for those who could have them."""
        limits, share = self.limits, decision.share
        rate = departures_per_second(self.drain.per_second(now), limits.slots, self.run_times.mean)
        turns, part = self._turns, 1.0
        if share is None:
            base = retry_after_seconds(room, limits.max_waiting, rate, limits.retry_after_seconds)
        else:
            base = share_retry_after_seconds(share, room, limits.bounds, rate, limits.retry_after_seconds)
            turns = self._own_turns.setdefault(job.client, Turns(max(1, limits.max_waiting)))
            part = share.part
        spacing = (1 / rate if rate else limits.retry_after_seconds / limits.slots) / part
        job.turn_at = turns.of(job, now, float(base), spacing)
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
