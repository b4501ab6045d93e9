"""Bringing an attempt's outcome to the database: end the job, or give it back for another attempt.

What becomes of the job is judged once, because that spends from the budget and draws a backoff; only the storing is
repeated while the database is away.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog
from django.db import connection
from django.db.utils import DatabaseError, DataError, IntegrityError, InterfaceError

from jobs import lifecycle, registry, telemetry, wakeups
from jobs.lifecycle import Outcome
from jobs.states import State
from workers import outcomes
from workers.failures import JobCancelled
from workers.retries import Again, Retry, Stop, decide

log = structlog.get_logger(__name__)

SETTLE_RETRY_SECONDS = 0.5


class Facts(Protocol):
    """What a claim and a lease both know of an attempt."""

    @property
    def job_id(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def cost_class(self) -> str: ...
    @property
    def failures(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...
    @property
    def deadline_at(self) -> datetime | None: ...


@dataclass(frozen=True)
class Verdict:
    """What an attempt brought, and after how many seconds the job is tried again; None if it has ended."""

    outcome: Outcome
    again_after: float | None = None


def judge(
    facts: Facts,
    outcome: Outcome,
    error: BaseException | None,
    remaining_seconds: float | None,
    spend: Callable[[], bool],
) -> Verdict:
    """A success or a cancel ends the job; of a failure decide, and tell, whether it is tried again.

    `error` is what the handler raised, None if it is not an exception that failed it.
    """
    if outcome.state is State.SUCCEEDED or _heeds_its_cancel(outcome, error):
        return Verdict(outcome)
    decision = _decide(facts, error, remaining_seconds, spend)
    _tell(facts, outcome, error, remaining_seconds, decision)
    if isinstance(decision, Again):
        return Verdict(outcome, decision.after_seconds)
    return Verdict(replace(outcome, stopped_by=decision.stopped_by))


def _heeds_its_cancel(outcome: Outcome, error: BaseException | None) -> bool:
    return isinstance(error, JobCancelled) and outcome.error_code == outcomes.CANCELLED


def store(facts: Facts, verdict: Verdict) -> State | None:
    """None for a stale attempt. Raises as Django does when the database is away."""
    if verdict.again_after is None:
        return lifecycle.settle(facts.job_id, facts.attempt, verdict.outcome)
    return lifecycle.retry(facts.job_id, facts.attempt, verdict.outcome, verdict.again_after)


def _decide(
    facts: Facts, error: BaseException | None, remaining_seconds: float | None, spend: Callable[[], bool]
) -> Again | Stop:
    if error is None:
        return Stop("not_retryable")
    try:
        return decide(
            retry_of(facts.type),
            error,
            failures=facts.failures + 1,
            max_attempts=facts.max_attempts,
            remaining_seconds=remaining_seconds,
            spend=spend,
        )
    except Exception as odd:  # an error with attributes or classes of its own may raise when it is asked what it is
        log.warning("retry_not_decidable", error=type(odd).__name__)
        return Stop("not_retryable")


def retry_of(job_type: str) -> Retry:
    known = registry.get(job_type)
    return known.retry if known is not None and known.retry is not None else Retry()


def _tell(
    facts: Facts, outcome: Outcome, error: BaseException | None, remaining_seconds: float | None, decision: Again | Stop
) -> None:
    again = isinstance(decision, Again)
    reason = "" if isinstance(decision, Again) else decision.stopped_by
    telemetry.RETRIES.labels("again" if again else "stop", reason).inc()
    log.info(
        "retry_decision",
        job_id=str(facts.job_id),
        attempt=facts.attempt,
        max_attempts=facts.max_attempts,
        deadline_at=facts.deadline_at and facts.deadline_at.isoformat(),
        remaining_seconds=remaining_seconds,
        error=outcome.error_code if error is None else type(error).__name__,
        retryable=outcome.retryable,
        decision="again" if again else "stop",
        reason=reason,
        after_seconds=decision.after_seconds if isinstance(decision, Again) else None,
    )


def until_stored(facts: Facts, verdict: Verdict) -> State | None:
    """Store, however long the database is away (P34). None: the lease was lost, and nothing changed."""
    state = _until_stored(facts, verdict)
    if state is State.QUEUED and verdict.again_after == 0:
        wakeups.after_commit(facts.cost_class)  # a backoff's end is for the keepers to see (P14)
    return state


def _until_stored(facts: Facts, verdict: Verdict) -> State | None:
    while True:
        try:
            return store(facts, verdict)
        except Exception as error:
            connection.close()  # in whatever state this left it
            if _is_about_the_database(error):
                log.warning("settle_waits", error=type(error).__name__)
            else:
                log.warning("result_not_storable", error=type(error).__name__)
                verdict = _not_storable(facts, verdict, type(error).__name__)
            time.sleep(SETTLE_RETRY_SECONDS)


def _is_about_the_database(error: Exception) -> bool:
    """Away, read-only during a failover, behind on its schema: it passes. Or about what the handler brought: that stays."""
    return isinstance(error, (DatabaseError, InterfaceError)) and not isinstance(error, (DataError, IntegrityError))


def _not_storable(facts: Facts, verdict: Verdict, why: str) -> Verdict:
    """What was decided of a failure stands; a success has become one, and that is not tried again."""
    outcome = outcomes.failed("bad_result", "The handler's result cannot be stored as JSON.", why)
    if verdict.outcome.state is State.SUCCEEDED:
        return judge(facts, outcome, None, None, lambda: False)
    return replace(verdict, outcome=replace(outcome, stopped_by=verdict.outcome.stopped_by))
