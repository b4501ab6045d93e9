"""One attempt without a worker: what `workers.testing.run` does. Nothing here opens a connection."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings

from jobs import classes
from jobs.lifecycle import Outcome
from jobs.states import State
from workers import by_hand, outcomes
from workers.artifacts import Artifacts
from workers.artifacts import Memory as Files
from workers.by_hand import Refused
from workers.context import JobContext
from workers.failures import Ended, JobCancelled, JobTimeout
from workers.once import Memory
from workers.retries import Again, Retry, Stop, decide
from workers.testing import Alarm, FakeClock, Ran
from workers.testing.loops import FakeTimeLoop
from workers.testing.notes import Missing, Notes, TrialContext

JOB_ID = UUID(int=0)


class ProcessEnded(BaseException):
    """Raised where the watchdog or the keeper would have ended the process; a handler cannot get past it."""


@dataclass(frozen=True)
class Arranged:
    """What the test said; see workers.testing.run."""

    timeout: float | None
    deadline: float | None
    attempt: int
    after: Ran | None
    cancel_at: float | None
    stop_at: float | None
    http: Any
    fan_out: Any
    uploads: Mapping[str, Any]
    budget_left: bool
    draw: Callable[[float, float], float]


class Trial:
    """One attempt. Raises Refused for what would never become a job."""

    def __init__(self, handler: str | Callable[..., Any], params: Any, asked: Arranged, clock: FakeClock) -> None:
        self._type = by_hand.type_of(handler)
        self._params, self._class = by_hand.params_of(self._type, params)
        self._asked = asked
        self._clock = clock
        self._limit = self._limit_seconds()
        self._cut = asked.deadline is not None and asked.deadline <= self._limit
        self._retry: Retry = self._type.retry or Retry()
        self._notes = Notes(asked.after.memory.copy() if asked.after else Memory())
        self._files = Files()
        self._began = clock.now
        self._fired: type[Ended] | None = None
        self._ended_by: str = ""  # why the process was ended, if it was

    def _limit_seconds(self) -> float:
        limit = by_hand.timeout_of(self._type, self._class, self._asked.timeout)
        for name in ("cancel_at", "stop_at"):
            seconds = getattr(self._asked, name)
            if seconds is not None and not seconds >= 0:
                raise Refused(f"{name} is {seconds!r}, but must be seconds from the start, 0 or more.")
        deadline = self._asked.deadline
        if deadline is not None and deadline <= 0:
            raise Refused("deadline has passed, so the job would never have started.")
        return limit if deadline is None else min(limit, deadline)

    def run(self) -> Ran:
        ctx = self._context()
        self._began = self._clock.now
        self._set_alarms()
        try:
            outcome, error = self._outcome(ctx)
        finally:
            self._clock.alarms.clear()
        if self._notes.mistake is not None:
            raise self._notes.mistake
        return self._verdict(outcome, error)

    def _outcome(self, ctx: JobContext[Any]) -> tuple[Outcome, BaseException | None]:
        """As the runner makes it."""
        error: BaseException | None = None
        try:
            outcome = outcomes.of_result(self._call(ctx), self._class.name)
        except BaseException as raised:
            if type(raised) is KeyboardInterrupt:  # somebody at the keyboard, not a limit
                raise
            error = raised
            outcome = outcomes.of_exception(raised, self._retry, self._cut, self._has_come(self._asked.cancel_at))
        if self._ended_by:
            return outcomes.timed_out(self._cut, outcome.detail, self._retry), JobTimeout()
        return outcomes.after_a_signal(self._fired, outcome, error, self._cut, self._retry)

    def _call(self, ctx: JobContext[Any]) -> object:
        """As the runner does it, but a coroutine on a loop whose time is the clock's."""
        result = self._type.handler(ctx)
        if not inspect.iscoroutine(result):
            return result
        with asyncio.Runner(loop_factory=lambda: FakeTimeLoop(self._clock)) as loop:
            return loop.run(result)

    def _context(self) -> JobContext[Any]:
        name = self._type.name
        return TrialContext(
            self._params,
            notes=self._notes,
            job_id=JOB_ID,
            attempt=self._asked.attempt,
            limit_seconds=self._limit,
            log=self._notes.logger(name).bind(job_id=str(JOB_ID), attempt=self._asked.attempt),
            report=lambda fraction, note: None,
            once=self._notes.once,
            cancelled=partial(self._has_come, self._asked.cancel_at),
            stopping=partial(self._has_come, self._asked.stop_at),
            http=self._asked.http or Missing("http", self._notes),
            fan_out=self._notes.fan_out(self._asked.fan_out or Missing("fan_out", self._notes), self._clock),
            clock=self._clock,
            artifacts=Artifacts(self._files),
            open_upload=partial(self._notes.open_upload, self._asked.uploads),
        )

    # ── Time ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _set_alarms(self) -> None:
        grace = settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS
        self._at(self._limit, lambda: self._raise(JobTimeout))
        self._at(self._limit + grace, lambda: self._end_process("limit"))
        if self._asked.cancel_at is not None:
            self._at(self._asked.cancel_at, lambda: self._raise(JobCancelled))
            self._at(self._asked.cancel_at + grace, lambda: self._end_process("cancel"))
        if self._asked.stop_at is not None:
            stop_grace = classes.stop_grace_seconds(self._class.name)
            self._at(self._asked.stop_at + stop_grace, lambda: self._end_process("stop"))

    def _at(self, seconds: float, ring: Callable[[], None]) -> None:
        self._clock.alarms.append(Alarm(self._began + seconds, ring))

    def _raise(self, kind: type[Ended]) -> None:
        self._fired = kind
        raise kind

    def _end_process(self, why: str) -> None:
        """From here on any look at the clock ends it again."""
        self._ended_by = self._ended_by or why
        self._clock.alarms.append(Alarm(self._clock.now, lambda: self._end_process(why)))
        raise ProcessEnded

    def _has_come(self, seconds: float | None) -> bool:
        return seconds is not None and self._clock.now >= self._began + seconds

    # ── What becomes of it ───────────────────────────────────────────────────────────────────────────────────

    def _verdict(self, outcome: Outcome, error: BaseException | None) -> Ran:
        """A cancel wins whatever the attempt brought (P20); one that is released is nobody's failure (P26)."""
        if self._has_come(self._asked.cancel_at):
            return self._ran(State.CANCELLED, exception=error)
        if self._ended_by == "stop":
            return self._ran(State.QUEUED)
        if outcome.state is State.SUCCEEDED:
            return self._ran(State.SUCCEEDED, result=outcome.result, artifacts=self._files.kept)
        decision = self._decide(error)
        return self._ran(
            State.QUEUED if isinstance(decision, Again) else State.FAILED,
            error_code=outcome.error_code,
            error_message=outcome.error_message,
            error_details=outcome.error_details,
            exception=error,
            decision=decision,
            failures=self._failures() + 1,
        )

    def _decide(self, error: BaseException | None) -> Again | Stop:
        if error is None:
            return Stop("not_retryable")
        deadline = self._asked.deadline
        return decide(
            self._retry,
            error,
            failures=self._failures() + 1,
            max_attempts=self._type.max_attempts,
            remaining_seconds=None if deadline is None else deadline - self._seconds(),
            spend=lambda: self._asked.budget_left,
            draw=self._asked.draw,
        )

    def _failures(self) -> int:
        """Before this attempt. One that is not told of an earlier attempt takes it that all of them failed."""
        return self._asked.attempt - 1 if self._asked.after is None else self._asked.after.failures

    def _seconds(self) -> float:
        return self._clock.now - self._began

    def _ran(self, state: State, **more: Any) -> Ran:
        return Ran(
            state.value,
            attempt=self._asked.attempt,
            seconds=self._seconds(),
            killed=bool(self._ended_by),
            progress=tuple(self._notes.progress),
            log=tuple(self._notes.log),
            once=tuple(self._notes.once_calls),
            fan_outs=tuple(self._notes.fan_outs),
            memory=self._notes.memory,
            **{"failures": self._failures(), **more},
        )
