"""One attempt of one job, as a pipeline: claim, arm, announce, run, clear up, settle.

The Celery task that calls this always returns normally: what a job does is the job's outcome, never
the task's (P21).
"""

import asyncio
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError, InterfaceError
from pydantic import ValidationError
from structlog.contextvars import bound_contextvars

from jobs import lifecycle, registry, sweeps, tally, telemetry, traces
from jobs.lifecycle import Claim, Outcome
from jobs.states import State
from workers import artifacts, descendants, equipment, outcomes, progress, reporting, settling, strays, usage
from workers.artifacts import Artifacts
from workers.context import JobContext
from workers.equipment import Equipment
from workers.handler_database import own_connections
from workers.logbook import LOGGER
from workers.once import Database, once
from workers.uploads import open_upload

log = structlog.get_logger(__name__)

_HOOK_SECONDS = 10.0  # for an error tracker; one that hangs costs this process, and the job is settled by then
_RECURSION_LIMIT = sys.getrecursionlimit()
_SHORTEST_SECONDS = 0.001  # a timer of no time at all would never fire


def run_next(cost_class: str, announce: Callable[[Claim], None]) -> None:
    """Claim the first waiting job of the class and run it to its settle; nothing to claim is a no-op."""
    me = equipment.mine()
    me.begin_afresh()
    asked_at = time.monotonic()
    claim = _claim(me, cost_class)
    if claim is None:
        return
    claim = _counted_from(asked_at, claim)
    me.slot.begin(claim.token, usage.cpu_seconds())
    trace = {"trace_id": traces.trace_id(claim.traceparent)} if claim.traceparent else {}
    with bound_contextvars(job_id=str(claim.job_id), attempt=claim.attempt, request_id=claim.request_id, **trace):
        try:
            _attempt(me, claim, announce)
        except BaseException as escaped:
            _end_in_order(claim, escaped)


def _end_in_order(claim: Claim, escaped: BaseException) -> None:
    """Nothing should come here. If it does, the job is settled, not lost and run again, and this process, in whatever
    state it is, takes no other."""
    log.error("runner_failed", error=type(escaped).__name__)
    connection.close()
    outcome = outcomes.failed("internal_error", "The worker failed while it ran this job.", type(escaped).__name__)
    try:
        lifecycle.settle(claim.job_id, claim.attempt, outcome)
    finally:
        os._exit(1)


def _claim(me: Equipment, cost_class: str) -> Claim | None:
    try:
        return lifecycle.claim(
            me.claimant,
            cost_class,
            registry.names(),
            settings.WEIGHBRIDGE_LEASE_SECONDS,
            settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS,
        )
    except (DatabaseError, InterfaceError) as error:
        # If it was committed all the same, the keeper finds an attempt that no child works on.
        log.warning("claim_failed", error=type(error).__name__)
        connection.close()
        return None


def _counted_from(asked_at: float, claim: Claim) -> Claim:
    """What remained in the database may have been on its way to us for a while: it counts from before we asked (P13)."""
    spent = time.monotonic() - asked_at
    remaining = None if claim.remaining_seconds is None else claim.remaining_seconds - spent
    return replace(
        claim, limit_seconds=max(claim.limit_seconds - spent, _SHORTEST_SECONDS), remaining_seconds=remaining
    )


def _attempt(me: Equipment, claim: Claim, announce: Callable[[Claim], None]) -> None:
    began = time.monotonic()
    me.limits.arm(claim.limit_seconds)
    me.budget.count_attempt()
    log.info("job_started", type=claim.type, wait_seconds=round(claim.wait_seconds, 3))
    threads = descendants.threads()
    announce(claim)
    outcome, error = _measured(me, claim, began)
    progress.write_last(claim)
    me.limits.disarm()
    left = _clear_up(threads)
    state = _settle(me, claim, outcome, error, began)
    if error is not None:
        # Not of a cancel, which somebody asked for, nor of a stale attempt: the job is somebody else's to tell of.
        if state in {State.QUEUED, State.FAILED}:
            with me.limits.watched(_HOOK_SECONDS):
                reporting.attempt_failed(error, claim)
        with me.limits.watched(_HOOK_SECONDS):  # what the handler made may have a __del__ of its own
            _let_go_of(error)
    _leave_if(me, left)


def _leave_if(me: Equipment, left: list[str]) -> None:
    """This process takes no other job if the last one may be felt in it. The pool replaces it.

    A thread cannot be killed. What was raised inside the handler from outside may have left a module half imported. What was
    changed of the whole process would be the next job's too.
    """
    changed = me.alterations.found()
    if left or changed or me.limits.fired:
        log.info("child_leaves", left=left, changed=changed, cut_short=me.limits.fired is not None)
        me.leave()


def _measured(me: Equipment, claim: Claim, armed_at: float) -> tuple[Outcome, BaseException | None]:
    meter = usage.Meter()
    outcome, error = _run(me, claim, armed_at)
    used = meter.read()
    telemetry.RUN.labels(claim.cost_class).observe(used.run_seconds)
    if claim.attempt == 1:
        telemetry.WAIT.labels(claim.cost_class).observe(claim.wait_seconds)
        if claim.late_seconds is not None:
            telemetry.LATE.labels(claim.cost_class).observe(claim.late_seconds)
    return replace(
        outcome,
        log=me.logbook.text(),
        run_seconds=used.run_seconds,
        cpu_seconds=used.cpu_seconds,
        peak_rss_bytes=used.peak_rss_bytes,
    ), error


def _run(me: Equipment, claim: Claim, armed_at: float) -> tuple[Outcome, BaseException | None]:
    """The outcome, and the exception that made it, if one did."""
    cut = claim.remaining_seconds is not None and claim.remaining_seconds <= claim.limit_seconds
    retry = settling.retry_of(claim.type)
    error: BaseException | None = None
    try:
        with own_connections():
            try:
                result = me.limits.inside(lambda: _body(me, claim, armed_at))
            finally:
                me.slot.settle()  # it has finished: neither a cancel nor the end of a grace is to hit it any more
                sys.setrecursionlimit(_RECURSION_LIMIT)  # the handler's own would be ours too
        outcome = result if isinstance(result, Outcome) else outcomes.of_result(result, claim.cost_class)
    except BaseException as raised:  # SystemExit and MemoryError are a job's failure too (P21)
        error = raised
        outcome = outcomes.of_exception(raised, retry, cut, me.slot.cancelled)
    return outcomes.after_a_signal(me.limits.fired, outcome, error, cut, retry)


def _body(me: Equipment, claim: Claim, armed_at: float) -> Any:
    """What the handler returns; an Outcome if it cannot be called."""
    job_type = registry.get(claim.type)
    if job_type is None:  # claims name known types only, so this is a registry that changed under us
        return outcomes.failed("unknown_type", f"This worker does not know job type {claim.type}.")
    try:
        params = job_type.params.model_validate(claim.params)
    except ValidationError as error:
        # It was valid at the door: the type changed since.
        detail = str(error.errors(include_input=False))
        return outcomes.failed("invalid_params", "The params no longer fit the job type.", detail)
    try:
        return call(job_type.handler, _context(me, claim, params, armed_at))
    finally:
        if os.getpid() != me.claimant.pid:
            os._exit(0)  # the handler forked, and this is the fork leaving it: it is nobody's attempt, and owns nothing


def call(handler: Callable[[Any], Any], ctx: JobContext[Any]) -> Any:
    """A coroutine gets a loop of its own, cancelled when the limit raises (P28)."""
    result = handler(ctx)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _context(me: Equipment, claim: Claim, params: Any, armed_at: float) -> JobContext[Any]:
    os.environ[strays.ATTEMPT_VARIABLE] = str(claim.token)
    return JobContext(
        params,
        job_id=claim.job_id,
        attempt=claim.attempt,
        limit_seconds=max(claim.limit_seconds - (time.monotonic() - armed_at), _SHORTEST_SECONDS),
        log=structlog.get_logger(f"{LOGGER}.{claim.type}").bind(job_id=str(claim.job_id), attempt=claim.attempt),
        report=partial(progress.report, claim),
        report_at_the_end=partial(progress.keep, claim),
        once=partial(once, Database(claim.job_id, claim.attempt)),
        cancelled=lambda: me.slot.cancelled,
        stopping=lambda: me.slot.shared.stopping,
        job_retries=claim.max_attempts > 1,
        traceparent=claim.traceparent,
        artifacts=Artifacts(artifacts.Database(claim.job_id, claim.attempt)),
        open_upload=partial(open_upload, claim.job_id),
    )


def _let_go_of(error: BaseException) -> None:
    """Its frames hold the handler's variables, and with them open files and sockets, until somebody collects garbage."""
    known: set[int] = set()
    ahead: list[BaseException | None] = [error]
    while ahead:
        one = ahead.pop()
        if one is None or id(one) in known:
            continue
        known.add(id(one))
        traceback.clear_frames(one.__traceback__)
        ahead += [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]


def _clear_up(threads: Collection[int]) -> list[str]:
    """End what the handler left; what cannot be ended from here."""
    try:
        killed = descendants.end_processes(os.getpid())
    except OSError as error:  # no descriptor is left to look with, say
        log.warning("cannot_clear_up", error=type(error).__name__)
        return ["whatever there is"]
    if killed:
        log.warning("processes_left", count=killed)
    tally.write_now()  # of a handler that submits jobs: our own thread is no reason to end the process
    return descendants.threads_besides(threads)


def _wake_those_it_held() -> None:
    """At once, in whatever class they wait. If that cannot be, the top-up does so within a second or two."""
    try:
        sweeps.top_up()
    except (DatabaseError, InterfaceError) as error:
        log.warning("freed_limit_not_told", error=type(error).__name__)
        connection.close()


def _settle(me: Equipment, claim: Claim, outcome: Outcome, error: BaseException | None, began: float) -> State | None:
    remaining = None if claim.remaining_seconds is None else claim.remaining_seconds - (time.monotonic() - began)
    verdict = settling.judge(claim, outcome, error, remaining, me.budget.spend)
    state = settling.until_stored(claim, verdict)
    me.slot.clear()
    if claim.has_limits:
        _wake_those_it_held()
    log.info("job_settled", type=claim.type, state=state, code=outcome.error_code, run_seconds=outcome.run_seconds)
    return state
