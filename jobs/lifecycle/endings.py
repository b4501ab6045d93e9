"""Ends that no attempt brings: a cancel, a wait that was too long, a type that nobody knows."""

from datetime import timedelta
from uuid import UUID

import structlog

from jobs.lifecycle.moves import AWAITED, LATEST_START, moved, state_of
from jobs.states import State

log = structlog.get_logger(__name__)

UNKNOWN_TYPE_PATIENCE_SECONDS = 60.0  # a rolling deployment brings new workers within it


def cancel(job_id: UUID) -> State | None:
    """End a queued job now (CANCELLED); ask a running one to end (RUNNING). None if it had already ended.

    A repeated call keeps the first instant at which the cancel was asked for.
    """
    state = state_of(moved(_CANCEL, {"job": job_id}))
    if state is not None:
        log.info("cancel", job_id=str(job_id), state=state.value)
    return state


def cancel_batch(batch_id: UUID) -> list[UUID]:
    """Cancel, as `cancel` does, each job of the batch that has not ended; those. None of them will succeed (P20)."""
    rows = moved(_CANCEL_BATCH, {"batch": batch_id})
    for job_id, state, *_ in rows:
        log.info("cancel", job_id=str(job_id), state=state, batch_id=str(batch_id))
    return [job_id for job_id, *_ in rows]


def _cancelling(which: str) -> str:
    """One statement, because a claim may turn queued into running between any two."""
    return f"""
UPDATE jobs_job
SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
    finished_at = CASE state WHEN 'queued' THEN clock_timestamp() END,
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE {which} AND state IN ('queued', 'running')
RETURNING id, state, cost_class, {AWAITED}
"""


_CANCEL = _cancelling("id = %(job)s")
_CANCEL_BATCH = _cancelling("batch_id = %(batch)s")


def withdraw(job_id: UUID) -> State | None:
    """End a queued job whose caller has gone (P38): CANCELLED, or None if it was no longer queued, and then it goes on."""
    state = state_of(moved(_WITHDRAW, {"job": job_id}))
    if state is not None:
        log.info("withdrawn", job_id=str(job_id))
    return state


def withdraw_batch(batch_id: UUID) -> int:
    """The same for a batch's queued jobs, but those that their caller can come back to by a key of their own; the number ended."""
    rows = moved(_WITHDRAW_BATCH, {"batch": batch_id})
    for job_id, *_ in rows:
        log.info("withdrawn", job_id=str(job_id), batch_id=str(batch_id))
    return len(rows)


def _withdrawing(which: str) -> str:
    return f"""
UPDATE jobs_job
SET state = 'cancelled', finished_at = clock_timestamp(), cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE {which} AND state = 'queued'
RETURNING id, state, cost_class, {AWAITED}
"""


_WITHDRAW = _withdrawing("id = %(job)s")
_WITHDRAW_BATCH = _withdrawing(
    "batch_id = %(batch)s AND NOT EXISTS (SELECT 1 FROM jobs_idempotencykey key WHERE key.job_id = jobs_job.id)"
)


def expire(job_id: UUID | None = None, client_id: int | None = None) -> int:
    """End queued jobs past their start_by: this one, one client's, or all; the number of them (P2, P26).

    Where that was their batch's deadline they are cancelled, as all are that it cuts off (P9).
    """
    rows = moved(_EXPIRE, {"job": job_id, "client": client_id})
    for expired_id, state, *_ in rows:
        log.info("job_expired", job_id=str(expired_id), state=state)
    return len(rows)


# SKIP LOCKED: a row that a claim or a cancel holds this moment is theirs; the next run looks again.
_EXPIRE = f"""
WITH overdue AS MATERIALIZED (
    SELECT id, coalesce(start_by = (SELECT deadline_at FROM jobs_batch batch WHERE batch.id = batch_id), false) AS cut_off
    FROM jobs_job
    WHERE state = 'queued' AND start_by <= statement_timestamp() AND (%(job)s::uuid IS NULL OR id = %(job)s::uuid)
      AND (%(client)s::bigint IS NULL OR client_id = %(client)s::bigint)
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_job job
SET state = CASE WHEN cut_off THEN 'cancelled' WHEN attempt = 0 THEN 'expired' ELSE 'failed' END,
    cancel_requested_at = CASE WHEN cut_off THEN coalesce(cancel_requested_at, clock_timestamp()) ELSE cancel_requested_at END,
    error_code = CASE
        WHEN cut_off THEN ''
        WHEN attempt = 0 AND start_by < coalesce({LATEST_START}, 'infinity') THEN 'max_wait'
        ELSE 'deadline' END,
    error_message = CASE
        WHEN cut_off THEN ''
        WHEN attempt > 0 THEN 'Its deadline passed before it could run again.'
        WHEN start_by = {LATEST_START} THEN 'It was not started in time for its deadline; it never ran.'
        ELSE 'It was not started before its longest wait was over; it never ran.' END,
    error_retryable = NOT cut_off AND attempt = 0,  -- it did nothing, and another time it may be started
    stopped_by = CASE WHEN cut_off OR attempt = 0 THEN '' ELSE 'no_time' END,
    finished_at = clock_timestamp()
FROM overdue WHERE job.id = overdue.id
RETURNING job.id, job.state, job.cost_class, {AWAITED}
"""


def fail_unknown_types(beat: timedelta) -> int:
    """End queued jobs whose type no live node of their class knows, though one has been up long enough (P27)."""
    rows = moved(_FAIL_UNKNOWN_TYPES, {"beat": beat, "patience": UNKNOWN_TYPE_PATIENCE_SECONDS})
    for job_id, *_ in rows:
        log.warning("unknown_type", job_id=str(job_id))
    return len(rows)


# With no live node at all a job is held: a deployment may be on its way.
_FAIL_UNKNOWN_TYPES = f"""
WITH classes AS (
    SELECT DISTINCT cost_class FROM jobs_job WHERE state = 'queued'
), knowing AS (
    SELECT classes.cost_class, node.types
    FROM classes CROSS JOIN LATERAL live_nodes_v1(classes.cost_class, %(beat)s) node
), settled_classes AS (
    SELECT classes.cost_class
    FROM classes CROSS JOIN LATERAL live_nodes_v1(classes.cost_class, %(beat)s) node
    GROUP BY classes.cost_class HAVING min(node.started_at) <= clock_timestamp() - make_interval(secs => %(patience)s)
), orphaned AS MATERIALIZED (
    SELECT id FROM jobs_job job
    WHERE state = 'queued' AND cost_class IN (SELECT cost_class FROM settled_classes)
      AND NOT EXISTS (SELECT 1 FROM knowing WHERE knowing.cost_class = job.cost_class AND job.type = ANY(knowing.types))
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_job job
SET state = 'failed', error_code = 'unknown_type', error_message = 'No live worker of its class knows this job type.',
    error_retryable = attempt = 0,  -- as at the door: one may be starting
    finished_at = clock_timestamp()
FROM orphaned WHERE job.id = orphaned.id
RETURNING job.id, job.state, job.cost_class, {AWAITED}
"""
