"""Who is let into a class, and when the others should come back, of a simulated class. No Django.

The decision is jobs/decision.py, which the database is held against, its arithmetic that of jobs/capacity.py, the order that of jobs/order.py and the
turns those of jobs/turns/.
"""

import math
from dataclasses import dataclass, field, replace

from jobs.capacity import (
    RETRY_AFTER_CAP_SECONDS,
    Room,
    backlog_seconds,
    departures_per_second,
    kept_places,
    most_kept,
    retry_after_seconds,
    worked_off_in_seconds,
)
from jobs.decision import Ahead, Asked, Bounds, Decision, decide, share_retry_after_seconds, share_spacing_seconds
from jobs.order import Entry
from jobs.refused_lately import WANT_ROOM
from jobs.turns.book import PACED, Caller, Refusal, Seen
from jobs.turns.in_process import InProcess
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

    def bounds(self, kept: int = 0, kept_seconds: float = 0.0) -> Bounds:
        return Bounds(self.max_waiting, self.max_backlog_seconds, self.slots, kept, kept_seconds)


@dataclass(frozen=True)
class Answer:
    """`entry` of what was let in, else why not and when to come back. `returned`: it came at its turn."""

    entry: Entry | None
    returned: bool
    reason: str = ""
    retry_after_seconds: int = 0


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
        self._now = 0.0
        self._turns = InProcess(lambda: self._now)
        self._clients: dict[str, int] = {}

    def submit(self, job: Job, now: float) -> Answer:
        """What is past its start_by must have left the line before."""
        self._now = now
        caller = Caller(self._clients.setdefault(job.client, len(self._clients)), job.key)
        seen = self._turns.arrive(self.limits.name, caller, most_kept(self.limits.max_waiting))
        expected = self.run_times.expected(job.kind, now)
        room = Room(len(self.line.waiting), len(self.line.running), self.limits.slots, self.work.seconds(now))
        decision = self._decide(job, now, room, expected, seen)
        if decision.verdict == "admitted" or decision.verdict in WANT_ROOM:
            self.present.came(job.client, job.weight, now)
        if decision.verdict != "admitted":
            after = self._retry_after(caller, now, room, decision)
            return Answer(None, seen.returned, decision.verdict, after)
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
        return Answer(entry, seen.returned)

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

    def _bounds(self, seen: Seen) -> Bounds:
        limits, each = self.limits, seen.departure if self.run_times.mean else 0.0
        kept = kept_places(seen.near + seen.own_near, each, limits.max_waiting, limits.max_backlog_seconds)
        return limits.bounds(kept, kept * each)

    def _decide(self, job: Job, now: float, room: Room, expected: float | None, seen: Seen) -> Decision:
        bounds = self._bounds(seen)
        standing = replace(self.present.standing(job.client, job.weight, now), own_turns=seen.own_near)
        if job.deadline_at is None:
            return decide(Asked(None, expected), room, bounds, standing)
        asked = Asked(job.deadline_at - now, expected)
        return decide(asked, room, bounds, standing, self._ahead(job))

    def _ahead(self, job: Job) -> Ahead:
        place = self.line.place(job.client)
        before = [entry.cost_seconds for entry in self.line.waiting.values() if entry.rank <= place]
        before += [entry.cost_seconds for entry in self.line.running.values()]
        known = self.run_times.mean is not None and bool(before)
        return Ahead(len(before), math.fsum(before) / len(before) if known else None)

    def _retry_after(self, caller: Caller, now: float, room: Room, decision: Decision) -> int:
        """Without jitter, or the same seed would not give the same figures."""
        limits, share = self.limits, decision.share
        rate = departures_per_second(self.drain.per_second(now), limits.slots, self.run_times.mean)
        if share is None:
            drained = retry_after_seconds(room, limits.max_waiting, rate, limits.retry_after_seconds)
            backlog = backlog_seconds(room, limits.slots)
            worked_off = worked_off_in_seconds(backlog, limits.max_backlog_seconds)
            base = min(max(drained, math.ceil(worked_off)), RETRY_AFTER_CAP_SECONDS)
        else:
            base = share_retry_after_seconds(share, room, limits.bounds(), rate, limits.retry_after_seconds)
        if decision.verdict not in PACED:
            return base
        departure = spacing = 1 / rate if rate else limits.retry_after_seconds / limits.slots
        if share is not None:
            departure, spacing = departure / share.part, share_spacing_seconds(share, departure)
        refusal = Refusal(base, spacing, departure, 0.0, max(1, limits.max_waiting), over_share=share is not None)
        return self._turns.take(limits.name, caller, refusal).seconds
