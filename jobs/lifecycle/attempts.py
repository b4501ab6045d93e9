"""running → an end, or back to the queue: what becomes of an attempt, and of its job."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db.models.functions import Now
from psycopg.types.json import Jsonb

from jobs import telemetry
from jobs.lifecycle.moves import AWAITED, LATEST_START, Moved, moved, state_of
from jobs.models import Job
from jobs.row_locks import RowHeld, not_waiting
from jobs.states import State

log = structlog.get_logger(__name__)

LIVE_BEATS = 3  # as in live_nodes_v1 (P4)


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. `detail` is for operators only; `error_message` is what callers read."""

    state: State
    result: Any = None
    error_code: str = ""
    error_message: str = ""
    error_details: Any = None
    retryable: bool = False  # the kind of error; whether this job is tried again is a decision
    stopped_by: str = ""
    detail: str = ""
    log: str = ""
    run_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None


@dataclass(frozen=True)
class Remains:
    """What is known of an attempt that did not live to tell. Its run time is then the database's measure (P36)."""

    detail: str = ""  # for operators only
    log: str = ""
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None

    def of(self, outcome: Outcome) -> Outcome:
        """As this is all that will ever be known."""
        return replace(
            outcome,
            detail=self.detail or outcome.detail,
            log=self.log,
            cpu_seconds=self.cpu_seconds,
            peak_rss_bytes=self.peak_rss_bytes,
        )


def settle(job_id: UUID, attempt: int, outcome: Outcome) -> State | None:
    """The state the job ended in; None if this attempt no longer owns it, and then nothing changed (P18).

    Once a cancel was answered with 202 the end is `cancelled`, whatever the attempt brought (P20).
    """
    state = state_of(_end(_SETTLE, _settlement(job_id, attempt, outcome)))
    if state is None:
        telemetry.STALE_SETTLES.inc()
        log.warning("stale_settle", job_id=str(job_id), attempt=attempt, outcome=outcome.state.value)
    return state


def _settlement(job_id: UUID | None, attempt: int | None, outcome: Outcome) -> dict[str, Any]:
    succeeded = outcome.state is State.SUCCEEDED
    return {
        "job": job_id,
        "attempt": attempt,
        "state": outcome.state.value,
        "result": Jsonb(outcome.result) if succeeded else None,
        "failed": 0 if succeeded else 1,
        "lost": 0,
        "code": outcome.error_code,
        "message": outcome.error_message,
        "details": None if outcome.error_details is None else Jsonb(outcome.error_details),
        "retryable": outcome.retryable,
        "stopped_by": outcome.stopped_by,
        "log": outcome.log,
        "detail": outcome.detail,
        "run": outcome.run_seconds,
        "cpu": outcome.cpu_seconds,
        "peak": outcome.peak_rss_bytes,
    }


# What both ways out of `running` write: the lease is over, and the attempt is closed with what it used.
_LEASE_OVER = """
        lease_until = NULL, hard_deadline = NULL, node_id = NULL, pid = NULL, process_started = NULL,
        run_seconds = coalesce(run_seconds, 0) + coalesce(%(run)s, (
            SELECT extract(epoch FROM clock_timestamp() - open.started_at)::float8 FROM jobs_attempt open
            WHERE open.job_id = jobs_job.id AND open.number = jobs_job.attempt)),
        cpu_seconds = coalesce(coalesce(cpu_seconds, 0) + %(cpu)s, cpu_seconds),
        peak_rss_bytes = greatest(peak_rss_bytes, %(peak)s)
"""
_CLOSED = """
    UPDATE jobs_attempt
    SET finished_at = clock_timestamp(), error_code = %(code)s, error_detail = %(detail)s, log = %(log)s,
        run_seconds = coalesce(%(run)s, extract(epoch FROM clock_timestamp() - jobs_attempt.started_at)::float8),
        cpu_seconds = %(cpu)s, peak_rss_bytes = %(peak)s, outcome = CASE
"""


def _ending(which: str) -> str:
    """The statement that ends the running jobs `which` selects, and their open attempts.

    The CASEs are judged on the row as it is when the update gets its lock, so no cancel can slip between.
    """
    return f"""
WITH ended AS (
    UPDATE jobs_job
    SET state = CASE WHEN cancel_requested_at IS NULL THEN %(state)s ELSE 'cancelled' END,
        result = CASE WHEN cancel_requested_at IS NULL THEN %(result)s::jsonb END,
        error_code = CASE WHEN cancel_requested_at IS NULL THEN %(code)s ELSE '' END,
        error_message = CASE WHEN cancel_requested_at IS NULL THEN %(message)s ELSE '' END,
        error_details = CASE WHEN cancel_requested_at IS NULL THEN %(details)s::jsonb END,
        error_retryable = cancel_requested_at IS NULL AND %(retryable)s,
        stopped_by = CASE WHEN cancel_requested_at IS NULL THEN %(stopped_by)s ELSE '' END,
        failures = failures + CASE WHEN cancel_requested_at IS NULL THEN %(failed)s ELSE 0 END,
        lost = lost + %(lost)s, finished_at = clock_timestamp(), {_LEASE_OVER}
    WHERE state = 'running' AND {which}
    RETURNING id, attempt, state, cost_class, awaited_until, batch_id
), closed AS (
    {_CLOSED} %(lost)s WHEN 0 THEN ended.state ELSE 'lost' END
    FROM ended WHERE jobs_attempt.job_id = ended.id AND number = ended.attempt
)
SELECT id, state, cost_class, {AWAITED} FROM ended
"""


def _returning(which: str) -> str:
    """The statement that gives the running jobs `which` selects back to the queue, and closes their attempts.

    It keeps its rank; what it costs once more its client's next admission pays (P11). After a run `start_by` is the deadline, its own
    or its batch's, or nothing (P8). A job whose cancel was answered is never given
    back: it is left for the statement that ends it (P20).
    """
    return f"""
WITH returned AS (
    UPDATE jobs_job
    SET state = 'queued', available_at = clock_timestamp() + make_interval(secs => %(after)s),
        start_by = least({LATEST_START}, (SELECT batch.deadline_at FROM jobs_batch batch WHERE batch.id = batch_id)),
        failures = failures + %(failed)s, lost = lost + %(lost)s,
        progress_fraction = NULL, progress_note = '', {_LEASE_OVER}
    WHERE state = 'running' AND cancel_requested_at IS NULL AND {which}
    RETURNING id, attempt, cost_class, client_id, flow, cost_seconds
), owed AS (
    INSERT INTO jobs_fairdebt (cost_class, client_id, flow, seconds)
    SELECT cost_class, client_id, whose, cost_seconds FROM returned, unnest(ARRAY[NULL, flow]) AS whose
), closed AS (
    {_CLOSED} WHEN %(lost)s > 0 THEN 'lost' WHEN %(failed)s > 0 THEN 'retried' ELSE 'released' END
    FROM returned WHERE jobs_attempt.job_id = returned.id AND number = returned.attempt
)
SELECT id, 'queued', cost_class, false, NULL::uuid FROM returned
"""


_OWN = "id = %(job)s AND attempt = %(attempt)s"
_LOST_NOW = f"{_OWN} AND (NOT %(overdue_only)s OR lease_until < clock_timestamp())"

_SETTLE = _ending(_OWN)
_RETURN = _returning(_OWN)
_MAY_RUN_AGAIN = """(cancel_requested_at IS NULL AND lost + 1 < max_deliveries
         AND (deadline_at IS NULL OR deadline_at > clock_timestamp()))"""
_REQUEUE_LOST = _returning(f"{_LOST_NOW} AND {_MAY_RUN_AGAIN}")
_END_LOST = _ending(f"{_LOST_NOW} AND NOT {_MAY_RUN_AGAIN}")

_LOST = Outcome(
    State.FAILED,
    error_code="worker_lost",
    error_message="The process that ran this job ended before the job did.",
)
_POISON = replace(
    _LOST,
    error_code="poison",
    error_message="The processes that ran this job ended before it did, as often as is allowed; it is not tried again.",
)


def retry(job_id: UUID, attempt: int, outcome: Outcome, after_seconds: float) -> State | None:
    """Queue a job again after an attempt that failed: what the attempt brought is `outcome`.

    QUEUED, or what it became instead if a cancel was answered in the meantime; None for a stale attempt.
    """
    if _end(_RETURN, {**_settlement(job_id, attempt, outcome), "after": after_seconds}):
        return State.QUEUED
    return settle(job_id, attempt, outcome)


_RELEASED = Outcome(State.FAILED, error_code="released", detail="Its worker was stopped before it had finished.")


def release(job_id: UUID, attempt: int, remains: Remains | None = None) -> State | None:
    """Give a job back without blame: its node is stopping, and the grace is over (P26)."""
    released = (remains or Remains()).of(_RELEASED)
    if _end(_RETURN, {**_settlement(job_id, attempt, released), "failed": 0, "after": 0.0}):
        return State.QUEUED
    return settle(job_id, attempt, released)


def lose(job_id: UUID, attempt: int, remains: Remains | None = None, overdue_only: bool = False) -> State | None:
    """An attempt ended with its child: queue the job again, or end it if that happened too often (P26).

    With `overdue_only`, nothing is done for a lease that was renewed in the meantime.
    """
    lost = {"failed": 0, "lost": 1, "after": 0.0, "overdue_only": overdue_only}
    settlement = {**_settlement(job_id, attempt, (remains or Remains()).of(_LOST)), **lost}
    if _end(_REQUEUE_LOST, settlement):
        return State.QUEUED
    return state_of(_end(_END_LOST, settlement | _why_not_again(job_id)))


def _why_not_again(job_id: UUID) -> dict[str, str]:
    """What is said of a lost job that is not delivered again. Only its one running attempt could change the answer."""
    job = Job.objects.only("lost", "max_deliveries").filter(pk=job_id).first()
    if job is None or job.lost + 1 < job.max_deliveries:
        return {"code": _LOST.error_code, "message": _LOST.error_message, "stopped_by": "no_time"}
    outcome = _POISON if job.max_deliveries > 1 else _LOST
    return {"code": outcome.error_code, "message": outcome.error_message, "stopped_by": "attempts"}


def reap(beat: timedelta | None = None, lease: timedelta = timedelta(0)) -> int:
    """Requeue or end every running job whose lease is over; the number of them. When to, P17 says.

    With the keepers' `beat`, not yet those of a node that has just beaten: its keeper looks after them, and where it could not renew,
    somebody holds the row. After another `lease` they are taken for lost all the same.
    """
    overdue = Job.objects.filter(state=State.RUNNING, lease_until__lt=Now())
    if beat is not None:
        overdue = overdue.exclude(node__seen_at__gt=Now() - LIVE_BEATS * beat, lease_until__gt=Now() - lease)
    return sum(_reap(job_id, attempt) for job_id, attempt in overdue.values_list("pk", "attempt"))


def _reap(job_id: UUID, attempt: int) -> bool:
    """False also for a job whose row somebody holds: the others do not wait for it, nor do the other sweeps."""
    try:
        with not_waiting():
            return lose(job_id, attempt, Remains("Its lease was over."), overdue_only=True) is not None
    except RowHeld:
        return False


def _end(statement: str, arguments: dict[str, Any]) -> list[Moved]:
    rows = moved(statement, arguments)
    for job_id, state, *_ in rows:
        log.info("attempt_ended", job_id=str(job_id), state=state, code=arguments["code"])
    return rows
