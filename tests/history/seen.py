"""A history and the final rows, put together so that the rules can ask their questions."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

from jobs.states import State
from tests.history.events import (
    BodyBegan,
    BodyEnded,
    Event,
    NemesisBegan,
    NemesisEnded,
    NemesisHit,
    SubmitAccepted,
    SubmitInvoked,
    SubmitOutcome,
    SubmitRefused,
    SubmitUnknown,
    SubmitUnsent,
)
from tests.history.recorder import RECORDED
from tests.history.rows import AttemptRow, JobRow, Rows

E = TypeVar("E")
PAUSE = "pause"
OWN_HAND_SECONDS = 30.0  # a body that says it will end its process, or has its keeper end it, has no other witness


@dataclass(frozen=True)
class Bounds:
    """What the stack was started with, and what is allowed.

    processes: per class, of all its nodes together; a class left out is not counted.
    unknown_share: of the submits that were sent.
    stamp_seconds: between a statement's test of an instant and the stamp that it writes, on a busy machine.
    """

    lease_seconds: float = 30.0
    beat_seconds: float = 1.0
    processes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown_share: float = 0.01
    stamp_seconds: float = 0.25


@dataclass(frozen=True)
class Call:
    """One submit. Whole histories give it one outcome; a client that was cut short may leave it none."""

    invoked: SubmitInvoked
    outcomes: tuple[SubmitOutcome, ...]

    def is_all(self, *kinds: type[SubmitOutcome]) -> bool:
        return bool(self.outcomes) and all(isinstance(outcome, kinds) for outcome in self.outcomes)

    @property
    def is_unknown(self) -> bool:
        return not self.outcomes or self.is_all(SubmitUnknown)

    @property
    def accepted(self) -> SubmitAccepted | None:
        return next((outcome for outcome in self.outcomes if isinstance(outcome, SubmitAccepted)), None)


@dataclass(frozen=True)
class Body:
    began: BodyBegan
    ended: BodyEnded | None

    @property
    def name(self) -> str:
        return f"attempt {self.began.attempt} of {self.began.job_id} in process {self.began.pid}"

    @property
    def returned(self) -> bool:
        return self.ended is not None and self.ended.how == "returned"


@dataclass(frozen=True)
class Strike:
    """One act of a nemesis. `until` is infinite if it was never undone."""

    began: NemesisBegan
    hit: NemesisHit | None
    until: float


class Seen:
    def __init__(self, events: Iterable[Event], rows: Rows, bounds: Bounds) -> None:
        self.events = sorted(events, key=lambda event: event.at)
        self.rows = rows
        self.bounds = bounds
        self.jobs: dict[str, JobRow] = {job.id: job for job in rows.jobs}
        self.attempts: dict[str, list[AttemptRow]] = defaultdict(list)
        for attempt in rows.attempts:
            self.attempts[attempt.job_id].append(attempt)
        self.calls = self._calls()
        self.bodies = self._bodies()
        self.strikes = self._strikes()
        self.submissions = {call.invoked.submission for call in self.calls}
        self._histories = {submission.partition("/")[0] for submission in self.submissions}

    def of(self, kind: type[E]) -> list[E]:
        """Events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def _calls(self) -> list[Call]:
        outcomes: dict[str, list[SubmitOutcome]] = defaultdict(list)
        for event in self.events:
            if isinstance(event, SubmitAccepted | SubmitRefused | SubmitUnsent | SubmitUnknown):
                outcomes[event.call].append(event)
        return [Call(invoked, tuple(outcomes[invoked.call])) for invoked in self.of(SubmitInvoked)]

    def _bodies(self) -> list[Body]:
        """Each begin with the first end of the same attempt in the same process that nobody has taken."""
        ends: dict[tuple[str, int, int], list[BodyEnded]] = defaultdict(list)
        for end in self.of(BodyEnded):
            ends[end.job_id, end.attempt, end.pid].append(end)
        bodies = []
        for began in self.of(BodyBegan):
            left = ends[began.job_id, began.attempt, began.pid]
            bodies.append(Body(began, left.pop(0) if left else None))
        return bodies

    def _strikes(self) -> list[Strike]:
        hits = {hit.strike: hit for hit in self.of(NemesisHit)}
        ends = {end.strike: end.at for end in self.of(NemesisEnded)}
        return [
            Strike(began, hits.get(began.strike), ends.get(began.strike, math.inf)) for began in self.of(NemesisBegan)
        ]

    def is_ours(self, job: JobRow) -> bool:
        """Asked for, or claiming to be, by a client of this history."""
        return job.submission in self.submissions or job.submission.partition("/")[0] in self._histories

    @cached_property
    def our_jobs(self) -> list[JobRow]:
        return [job for job in self.rows.jobs if self.is_ours(job)]

    def bodies_by_job(self) -> dict[str, list[Body]]:
        return _grouped(self.bodies, [body.began.job_id for body in self.bodies])

    def calls_by_submission(self) -> dict[str, list[Call]]:
        return _grouped(self.calls, [call.invoked.submission for call in self.calls])

    def was_struck(self, pid: int, acts: Collection[str], since: float, until: float) -> bool:
        """Whether one of these acts could be felt by the process between two instants of the events' clock."""
        return any(
            pid in strike.began.pids
            and strike.began.act in acts
            and strike.began.at <= until
            and self._felt_until(strike) >= since
            for strike in self.strikes
        )

    def servers_were_away(self, since: float, until: float) -> bool:
        """Whether any was for a while in between: what is to be stored may have had to wait."""
        return any(
            strike.began.act in {"restart", "stop", "cut"} and strike.began.at <= until and strike.until >= since
            for strike in self.strikes
        )

    def by_events(self, instant: float) -> float:
        """An instant of the database's clock by that of the events, to a few milliseconds."""
        return instant - self.rows.ahead_seconds

    def _felt_until(self, strike: Strike) -> float:
        """A pause is over a lease and a beat after its end; of any other act the process is gone once it was seen to hit."""
        if strike.began.act == PAUSE:
            return strike.until + self.bounds.lease_seconds + self.bounds.beat_seconds + self.bounds.stamp_seconds
        return strike.began.at + OWN_HAND_SECONDS if strike.hit is None else strike.hit.at

    def excused(self, instant: float, pids: Iterable[int]) -> bool:
        """P18: one of the processes was paused for about a lease or longer, at that instant or at most a beat before."""
        among = set(pids)
        return any(self._covers(pause, instant) for pause in self.strikes if among.intersection(pause.began.pids))

    def _covers(self, pause: Strike, instant: float) -> bool:
        # The lease may have been up to a beat old when the pause began.
        long_enough = pause.until - pause.began.at >= self.bounds.lease_seconds - self.bounds.beat_seconds
        last = pause.until + self.bounds.beat_seconds + self.bounds.stamp_seconds
        return pause.began.act == PAUSE and long_enough and pause.began.at <= instant <= last


def is_recorded(job: JobRow) -> bool:
    """Its bodies write into a history."""
    return job.type in RECORDED


def is_terminal(job: JobRow) -> bool:
    return State(job.state).terminal


def _grouped(values: Sequence[E], keys: Sequence[str]) -> dict[str, list[E]]:
    groups: dict[str, list[E]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups
