"""Every move of a job after its admission. Each is one guarded statement; its row count is the verdict.

Raw SQL where one statement has to move a job and open or close its attempt, or return the row that it
changed: two statements would leave a gap for a killed process to stand in.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import connection
from psycopg.types.json import Jsonb

from jobs import telemetry
from jobs.models import Job
from jobs.states import State

log = structlog.get_logger(__name__)

HARD_DEADLINE_MARGIN_SECONDS = 5.0  # after limit and grace, before the keeper kills (P13)


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt. `attempt` is its number and its fencing token."""

    job_id: UUID
    attempt: int
    type: str
    cost_class: str
    params: dict[str, Any]
    timeout_seconds: float
    wait_seconds: float
    request_id: str


@dataclass(frozen=True)
class Lease:
    """One running attempt of a node, as the database has it."""

    job_id: UUID
    attempt: int
    pid: int
    process_started: int
    remaining_seconds: float  # until the keeper must kill it


@dataclass(frozen=True)
class Claimant:
    """Who claims: a child process of a node. `process_started` in kernel ticks tells a reused pid apart."""

    node_id: UUID
    pid: int
    process_started: int


def claim(
    claimant: Claimant, cost_class: str, types: list[str], lease_seconds: float, grace_seconds: float
) -> Claim | None:
    """The first waiting job of the class that this node knows, now running; None if there is none (P13)."""
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "cost_class": cost_class,
                "types": types,
                "node": claimant.node_id,
                "pid": claimant.pid,
                "process_started": claimant.process_started,
                "lease": lease_seconds,
                "kill_after": grace_seconds + HARD_DEADLINE_MARGIN_SECONDS,
            },
        )
        row = cursor.fetchone()
    if row is None:
        return None
    job_id, attempt, job_type, in_class, params, *rest = row
    return Claim(job_id, attempt, job_type, in_class, json.loads(params), *rest)  # Django leaves jsonb as text


# Takes no lock that an admission holds, and steps over rows that others hold. A node that is stopping,
# or that was never registered, claims nothing.
_CLAIM = """
WITH candidate AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE cost_class = %(cost_class)s AND state = 'queued' AND type = ANY(%(types)s)
      AND available_at <= clock_timestamp() AND (start_by IS NULL OR start_by > clock_timestamp())
      AND EXISTS (SELECT 1 FROM jobs_workernode
                  WHERE id = %(node)s AND stopping_at IS NULL AND stopped_at IS NULL)
    ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE jobs_job job
    SET state = 'running', attempt = attempt + 1, started_at = coalesce(started_at, clock_timestamp()),
        node_id = %(node)s, pid = %(pid)s, process_started = %(process_started)s,
        lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
        hard_deadline = clock_timestamp() + make_interval(secs => timeout_seconds + %(kill_after)s)
    FROM candidate WHERE job.id = candidate.id
    RETURNING job.*
), opened AS (
    INSERT INTO jobs_attempt (job_id, number, node_id, pid, process_started, started_at)
    SELECT id, attempt, node_id, pid, process_started, clock_timestamp() FROM claimed
)
SELECT id, attempt, type, cost_class, params, timeout_seconds,
       extract(epoch FROM started_at - accepted_at)::float8, request_id FROM claimed
"""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended. `detail` is for operators only; `error_message` is what callers read."""

    state: State
    result: Any = None
    error_code: str = ""
    error_message: str = ""
    detail: str = ""
    run_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None


def settle(job_id: UUID, attempt: int, outcome: Outcome) -> State | None:
    """The state the job ended in; None if this attempt no longer owns it, and then nothing changed (P18).

    Once a cancel was answered with 202 the end is `cancelled`, whatever the attempt brought (P20).
    """
    rows = _end(_SETTLE, _settlement(job_id, attempt, outcome))
    if not rows:
        telemetry.STALE_SETTLES.inc()
        log.warning("stale_settle", job_id=str(job_id), attempt=attempt, outcome=outcome.state.value)
        return None
    return State(rows[0][1])


def _settlement(job_id: UUID | None, attempt: int | None, outcome: Outcome) -> dict[str, Any]:
    succeeded = outcome.state is State.SUCCEEDED
    return {
        "job": job_id,
        "attempt": attempt,
        "state": outcome.state.value,
        "result": Jsonb(outcome.result) if succeeded else None,
        "failed": 0 if succeeded else 1,
        "code": outcome.error_code,
        "message": outcome.error_message,
        "detail": outcome.detail,
        "run": outcome.run_seconds,
        "cpu": outcome.cpu_seconds,
        "peak": outcome.peak_rss_bytes,
    }


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
        failures = failures + CASE WHEN cancel_requested_at IS NULL THEN %(failed)s ELSE 0 END,
        finished_at = clock_timestamp(), lease_until = NULL, hard_deadline = NULL, node_id = NULL, pid = NULL,
        process_started = NULL, run_seconds = coalesce(coalesce(run_seconds, 0) + %(run)s, run_seconds),
        cpu_seconds = coalesce(coalesce(cpu_seconds, 0) + %(cpu)s, cpu_seconds), peak_rss_bytes = greatest(peak_rss_bytes, %(peak)s)
    WHERE state = 'running' AND {which}
    RETURNING id, attempt, state, cost_class, finished_at
), closed AS (
    UPDATE jobs_attempt
    SET finished_at = ended.finished_at, outcome = ended.state, error_code = %(code)s, error_detail = %(detail)s,
        run_seconds = %(run)s, cpu_seconds = %(cpu)s, peak_rss_bytes = %(peak)s
    FROM ended WHERE jobs_attempt.job_id = ended.id AND number = ended.attempt
)
SELECT id, state, cost_class FROM ended
"""


_SETTLE = _ending("id = %(job)s AND attempt = %(attempt)s")
_REAP = _ending("lease_until < clock_timestamp()")

LOST = Outcome(
    State.FAILED,
    error_code="worker_lost",
    error_message="The process that ran this job ended before the job did.",
)


def reap() -> int:
    """End every running job whose lease is over; the number of them. Whether it is time to is P17's business."""
    rows = _end(_REAP, _settlement(None, None, LOST))
    return len(rows)


def _end(statement: str, arguments: dict[str, Any]) -> list[tuple[UUID, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        rows: list[tuple[UUID, str, str]] = cursor.fetchall()
    for job_id, state, cost_class in rows:
        telemetry.FINISHED.labels(cost_class, state).inc()
        log.info("job_ended", job_id=str(job_id), state=state, code=arguments["code"])
    return rows


def renew(node_id: UUID, leases: Sequence[Lease], lease_seconds: float) -> int:
    """Extend the leases whose child lives; the number extended, less than given if some were lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            _RENEW,
            {
                "node": node_id,
                "lease": lease_seconds,
                "jobs": [lease.job_id for lease in leases],
                "attempts": [lease.attempt for lease in leases],
            },
        )
        return int(cursor.rowcount)


_RENEW = """
UPDATE jobs_job SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM unnest(%(jobs)s::uuid[], %(attempts)s::integer[]) AS held (job_id, number)
WHERE id = held.job_id AND attempt = held.number AND state = 'running' AND node_id = %(node)s
"""


def report_progress(job_id: UUID, attempt: int, fraction: float, note: str) -> None:
    """Shown to whoever looks; a stale attempt changes nothing."""
    Job.objects.filter(pk=job_id, attempt=attempt, state=State.RUNNING).update(
        progress_fraction=fraction, progress_note=note
    )


def cancel(job_id: UUID) -> bool:
    """End a queued job now; ask a running one to end. False if it had already ended.

    A repeated call keeps the first instant at which the cancel was asked for.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CANCEL, {"job": job_id})
        row = cursor.fetchone()
    if row is None:
        return False
    state, cost_class = row
    if state == State.CANCELLED:
        telemetry.FINISHED.labels(cost_class, state).inc()
    log.info("cancel", job_id=str(job_id), state=state)
    return True


# One statement, because a claim may turn queued into running between any two.
_CANCEL = """
UPDATE jobs_job
SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
    finished_at = CASE state WHEN 'queued' THEN clock_timestamp() END,
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE id = %(job)s AND state IN ('queued', 'running')
RETURNING state, cost_class
"""


def expire(job_id: UUID | None = None) -> int:
    """End queued jobs past their start_by: this one, or all; the number of them (P2, P26)."""
    with connection.cursor() as cursor:
        cursor.execute(_EXPIRE, {"job": job_id})
        rows = cursor.fetchall()
    for expired_id, state, cost_class in rows:
        telemetry.FINISHED.labels(cost_class, state).inc()
        log.info("job_expired", job_id=str(expired_id), state=state)
    return len(rows)


# SKIP LOCKED: a row that a claim or a cancel holds this moment is theirs; the next run looks again.
_EXPIRE = """
WITH overdue AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE state = 'queued' AND start_by <= statement_timestamp() AND (%(job)s::uuid IS NULL OR id = %(job)s::uuid)
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_job job
SET state = CASE attempt WHEN 0 THEN 'expired' ELSE 'failed' END,
    error_code = CASE attempt WHEN 0 THEN 'max_wait' ELSE 'deadline' END,
    error_message = CASE attempt WHEN 0 THEN 'No process was free before its longest wait was over; it never ran.'
                                 ELSE 'Its time was up before it could run again.' END,
    finished_at = clock_timestamp()
FROM overdue WHERE job.id = overdue.id
RETURNING job.id, job.state, job.cost_class
"""
