"""One attempt of one job, as a pipeline: claim, announce, run, shape the outcome, settle.

The Celery task that calls this always returns normally: what a job does is the job's outcome, never
the task's (P21).
"""

import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError, DataError, InterfaceError, OperationalError
from pydantic import ValidationError
from structlog.contextvars import bound_contextvars

from jobs import classes, lifecycle, registry, telemetry
from jobs.lifecycle import Claim, Claimant, Outcome
from jobs.states import State
from jobs.storable import holds_nul
from workers import usage
from workers.context import JobContext

log = structlog.get_logger(__name__)

SETTLE_RETRY_SECONDS = 0.5
NODE_VARIABLE = "WEIGHBRIDGE_NODE_ID"  # set by the keeper for its children


def run_next(cost_class: str, announce: Callable[[Claim], None]) -> None:
    """Claim the first waiting job of the class and run it to its settle; nothing to claim is a no-op."""
    claim = lifecycle.claim(
        claimant(),
        cost_class,
        registry.names(),
        settings.WEIGHBRIDGE_LEASE_SECONDS,
        settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS,
    )
    if claim is None:
        return
    with bound_contextvars(job_id=str(claim.job_id), attempt=claim.attempt, request_id=claim.request_id):
        _attempt(claim, announce)


@cache
def claimant() -> Claimant:
    """Who this process is. Asked for the first time after the fork."""
    return Claimant(UUID(os.environ[NODE_VARIABLE]), *usage.myself())


def _attempt(claim: Claim, announce: Callable[[Claim], None]) -> None:
    log.info("job_started", type=claim.type, wait_seconds=round(claim.wait_seconds, 3))
    if claim.attempt == 1:
        telemetry.WAIT.labels(claim.cost_class).observe(claim.wait_seconds)
    announce(claim)
    outcome = _measured(claim)
    telemetry.RUN.labels(claim.cost_class).observe(outcome.run_seconds or 0)
    state = settle_until_stored(claim, outcome)
    log.info("job_settled", type=claim.type, state=state, code=outcome.error_code, run_seconds=outcome.run_seconds)


def _measured(claim: Claim) -> Outcome:
    meter = usage.Meter()
    outcome = _outcome(claim)
    used = meter.read()
    return replace(
        outcome,
        run_seconds=used.run_seconds,
        cpu_seconds=used.cpu_seconds,
        peak_rss_bytes=used.peak_rss_bytes,
    )


def _outcome(claim: Claim) -> Outcome:
    job_type = registry.get(claim.type)
    if job_type is None:  # claims name known types only, so this is a registry that changed under us
        return _failed("unknown_type", f"This worker does not know job type {claim.type}.")
    try:
        params = job_type.params.model_validate(claim.params)
    except ValidationError as error:
        # It was valid at the door: the type changed since.
        return _failed(
            "invalid_params", "The params no longer fit the job type.", str(error.errors(include_input=False))
        )
    try:
        result = job_type.handler(_context(claim, params))
    except BaseException as error:  # SystemExit and MemoryError are a job's failure too (P21)
        return _failed("handler_error", type(error).__name__, traceback.format_exc())
    return _shaped(result, claim.cost_class)


def _context(claim: Claim, params) -> JobContext:  # type: ignore[no-untyped-def, type-arg]
    return JobContext(
        params,
        job_id=claim.job_id,
        attempt=claim.attempt,
        timeout_seconds=claim.timeout_seconds,
        log=structlog.get_logger(claim.type).bind(job_id=str(claim.job_id), attempt=claim.attempt),
        report=lambda fraction, note: _report(claim, fraction, note),
    )


def _report(claim: Claim, fraction: float, note: str) -> None:
    """Progress is a courtesy: a database that is away for a moment must not fail the job."""
    try:
        lifecycle.report_progress(claim.job_id, claim.attempt, fraction, note)
    except DatabaseError as error:
        log.warning("progress_not_written", error=type(error).__name__)


def _shaped(result: object, cost_class: str) -> Outcome:
    """A result must be JSON that PostgreSQL can store, and no larger than its class allows."""
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        return _failed("bad_result", "The handler's result is not JSON-able data.", f"{type(error).__name__}: {error}")
    value = json.loads(text)
    if "\\u0000" in text and holds_nul(value):
        return _failed("bad_result", "The handler's result holds the character U+0000, which cannot be stored.")
    limit = classes.get(cost_class).result_bytes
    if size > limit:
        return _failed("result_too_large", f"The result is {size} bytes; at most {limit} are kept.")
    return Outcome(State.SUCCEEDED, result=value)


def _failed(code: str, message: str, detail: str = "") -> Outcome:
    return Outcome(State.FAILED, error_code=code, error_message=message, detail=detail)


def settle_until_stored(claim: Claim, outcome: Outcome) -> State | None:
    """Settle, however long the database is away (P34). None: the lease was lost, and nothing changed."""
    _leave_transactions()
    while True:
        try:
            return lifecycle.settle(claim.job_id, claim.attempt, outcome)
        except (OperationalError, InterfaceError) as error:
            log.warning("settle_waits", error=type(error).__name__)
            connection.close()  # in whatever state the handler or the outage left it
            time.sleep(SETTLE_RETRY_SECONDS)
        except DataError as error:
            log.warning("result_not_storable", error=type(error).__name__)
            outcome = _failed("bad_result", "The handler's result cannot be stored as JSON.", str(error))


def _leave_transactions() -> None:
    """A transaction that a handler left open would swallow the settle."""
    if connection.in_atomic_block or not connection.get_autocommit():
        log.warning("transaction_left_open")
        connection.in_atomic_block = False
        connection.close()
