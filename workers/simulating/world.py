"""The events of simulated classes, in the order of a clock of their own. No Django, no chance: that is in the traces."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from jobs.order import Entry
from workers.simulating.door import Door, Limits
from workers.simulating.figures import Report, Tally
from workers.simulating.traces import IGNORE, NEVER, Job

ROUND_TRIP_SECONDS = 0.01  # between an answer and the next job of a thread that has no other pause


def simulate(limits: Iterable[Limits], jobs: Iterable[Job]) -> Report:
    """jobs in the order of their arrival. Begins with empty classes, and ends when all that was let in has ended. KeyError: a class not given."""
    world = _World([_Class(Door(each)) for each in limits])
    for job in jobs:
        world.arrive(job)
    return world.rest()


@dataclass
class _Class:
    door: Door
    jobs: dict[int, Job] = field(default_factory=dict)  # admitted and not yet ended, by sequence
    start_by: list[tuple[float, int]] = field(default_factory=list)  # a heap; who has started since is passed over


@dataclass
class _Tallies:
    """Of one thing by name, made as they are first met."""

    by_name: dict[str, Tally] = field(default_factory=dict)

    def of(self, name: str) -> Tally:
        found = self.by_name.get(name)
        return self.by_name.setdefault(name, Tally()) if found is None else found


class _World:
    def __init__(self, classes: list[_Class]) -> None:
        self._classes = {each.door.limits.name: each for each in classes}
        self._events: list[
            tuple[float, int, Job, _Class, int]
        ] = []  # when, in which order; the sequence of what ends, or 0: comes, or comes back
        self._number = 0
        self._of_class, self._of_kind, self._of_client = _Tallies(), _Tallies(), _Tallies()
        self._count = 0
        self._last = 0.0
        self._over_at = float("inf")  # the last arrival, once there are no more

    def arrive(self, job: Job) -> None:
        self._run_until(job.at)
        self._last = job.at
        self._offer(job, self._classes[job.cost_class], job.at)

    def rest(self) -> Report:
        self._over_at = self._last
        self._run_until(float("inf"))
        for where in self._classes.values():
            self._expire(where, float("inf"))
        slots = {name: each.door.limits.slots for name, each in self._classes.items()}
        return Report(
            self._last,
            self._count,
            {name: self._of_class.of(name).figures(slots[name], self._last) for name in self._classes},
            {name: tally.figures(None, self._last) for name, tally in sorted(self._of_kind.by_name.items())},
            {name: tally.figures(None, self._last) for name, tally in sorted(self._of_client.by_name.items())},
        )

    def _offer(self, job: Job, where: _Class, now: float) -> None:
        self._count += 1
        job.key = str(self._count)
        for tally in self._tallies(job):
            tally.offered += 1
        self._ask(job, where, now)

    def _tallies(self, job: Job) -> tuple[Tally, Tally, Tally]:
        return self._of_class.of(job.cost_class), self._of_kind.of(job.kind), self._of_client.of(job.client)

    def _run_until(self, instant: float) -> None:
        while self._events and self._events[0][0] <= instant:
            at, _, job, where, sequence = heappop(self._events)
            if sequence:
                self._end(job, where, at, sequence)
            elif not job.asked:
                self._offer(job, where, at)
            else:
                self._ask(job, where, at)

    def _later(self, at: float, job: Job, where: _Class, sequence: int) -> None:
        self._number += 1
        heappush(self._events, (at, self._number, job, where, sequence))

    # ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, job: Job, where: _Class, now: float) -> None:
        self._expire(where, now)
        job.asked += 1
        answer = where.door.submit(job, now)
        for tally in self._tallies(job):
            tally.asked += 1
            tally.returned += answer.returned
            if answer.entry is None:
                tally.reasons[answer.reason] += 1
            else:
                tally.admitted += 1
                tally.returned_admitted += answer.returned
        if answer.entry is None:
            self._refused(job, where, now, answer.retry_after_seconds)
            return
        job.accepted_at = now
        if not job.waits_for_its_end:
            self._next(job, where, now)
        where.jobs[answer.entry.sequence] = job
        heappush(where.start_by, (where.door.start_by(job, now), answer.entry.sequence))
        self._start(where, now)

    def _refused(self, job: Job, where: _Class, now: float, retry_after_seconds: int) -> None:
        manner = job.manner
        again = now + (manner.pause_seconds if manner.comes == IGNORE else retry_after_seconds)
        too_late = job.deadline_at is not None and again >= job.deadline_at
        if manner.comes == NEVER or job.asked >= manner.asks or too_late:
            for tally in self._tallies(job):
                tally.gave_up += 1
            self._next(job, where, now)
        else:
            self._later(again, job, where, 0)

    def _next(self, job: Job, where: _Class, now: float) -> None:
        """Of one that a thread asked for, which has what it waits for: what it asks for then."""
        if job.then is not None and now < self._over_at:
            following = job.then(now + ROUND_TRIP_SECONDS)
            self._later(following.at, following, where, 0)

    # ── Running ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, where: _Class, now: float) -> None:
        while (entry := where.door.start(now)) is not None:
            self._started(where, entry, now)

    def _started(self, where: _Class, entry: Entry, now: float) -> None:
        job = where.jobs[entry.sequence]
        job.started_at = now
        for tally in self._tallies(job):
            tally.waits.append(now - job.accepted_at)
        end = now + job.run_seconds
        self._later(end if job.deadline_at is None else min(end, job.deadline_at), job, where, entry.sequence)

    def _end(self, job: Job, where: _Class, now: float, sequence: int) -> None:
        self._expire(where, now)
        where.door.finish(where.jobs.pop(sequence), sequence, now)
        useful = job.deadline_at is None or job.started_at + job.run_seconds <= job.deadline_at
        for tally in self._tallies(job):
            tally.busy_seconds += max(0.0, min(now, self._over_at) - job.started_at)
            tally.useful += useful
            tally.useful_meanwhile += useful and now <= self._over_at
        if job.waits_for_its_end:
            self._next(job, where, now)
        self._start(where, now)

    def _expire(self, where: _Class, now: float) -> None:
        waiting, heap = where.door.line.waiting, where.start_by
        while heap and heap[0][0] <= now:
            at, sequence = heappop(heap)
            if sequence in waiting:
                job = where.jobs.pop(sequence)
                where.door.expire(job, sequence, at)
                for tally in self._tallies(job):
                    tally.expired += 1
                if job.waits_for_its_end:
                    self._next(job, where, at)
