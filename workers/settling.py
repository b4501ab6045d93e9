"""Bringing an attempt's outcome to the database: end the job, or give it back for another attempt."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol
from uuid import UUID

import structlog
from django.db import connection
from django.db.utils import DataError, InterfaceError, OperationalError
from psycopg.pq import TransactionStatus

from jobs import lifecycle, registry, telemetry
from jobs.lifecycle import Outcome
from jobs.states import State
from workers import outcomes
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
    def failures(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


def conclude(
    facts: Facts,
    outcome: Outcome,
    error: BaseException | None,
    remaining_seconds: float | None,
    spend: Callable[[], bool],
) -> State | None:
    """Settle a success; of a failure decide first whether it is tried again. None for a stale attempt.

    `error` is what the handler raised, None if it is not an exception that failed it. Raises as Django does
    when the database is away.
    """
    if outcome.state is State.SUCCEEDED:
        return lifecycle.settle(facts.job_id, facts.attempt, outcome)
    decision = _decide(facts, error, remaining_seconds, spend)
    _tell(facts, outcome, error, remaining_seconds, decision)
    if isinstance(decision, Again):
        return lifecycle.give_back(facts.job_id, facts.attempt, outcome, decision.after_seconds)
    return lifecycle.settle(facts.job_id, facts.attempt, replace(outcome, stopped_by=decision.stopped_by))


def _decide(
    facts: Facts, error: BaseException | None, remaining_seconds: float | None, spend: Callable[[], bool]
) -> Again | Stop:
    if error is None:
        return Stop("not_retryable")
    return decide(
        retry_of(facts.type),
        error,
        failures=facts.failures + 1,
        max_attempts=facts.max_attempts,
        remaining_seconds=remaining_seconds,
        spend=spend,
    )


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
        remaining_seconds=remaining_seconds,
        error=outcome.error_code if error is None else type(error).__name__,
        retryable=outcome.retryable,
        decision="again" if again else "stop",
        reason=reason,
        after_seconds=decision.after_seconds if isinstance(decision, Again) else None,
    )


def until_stored(settle: Callable[[Outcome], State | None], outcome: Outcome) -> State | None:
    """Settle, however long the database is away (P34). None: the lease was lost, and nothing changed."""
    while True:
        try:
            _leave_transactions()
            return settle(outcome)
        except (OperationalError, InterfaceError) as error:
            log.warning("settle_waits", error=type(error).__name__)
            connection.close()  # in whatever state the handler or the outage left it
            time.sleep(SETTLE_RETRY_SECONDS)
        except DataError as error:
            log.warning("result_not_storable", error=type(error).__name__)
            outcome = outcomes.failed("bad_result", "The handler's result cannot be stored as JSON.", str(error))


def _leave_transactions() -> None:
    """A transaction that a handler left open, in Django's knowledge or not, would swallow the settle."""
    if connection.connection is None:
        return
    status = connection.connection.info.transaction_status
    if connection.in_atomic_block or status is not TransactionStatus.IDLE or not connection.connection.autocommit:
        log.warning("connection_left_in_a_transaction", status=status.name)
        connection.in_atomic_block = False
        connection.close()
