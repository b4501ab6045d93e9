"""Every move of a job after its admission. Each is one guarded statement; its row count is the verdict.

Nothing is published here: whoever gives a job back sends its wake-up, or has it sent, since a keeper's main thread must
not wait for a broker (P14). Who wants to hear of ends connects to `ended`.

Raw SQL where one statement has to move a job and open or close its attempt, or return the row that it
changed: two statements would leave a gap for a killed process to stand in.
"""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection
from django.db.models.functions import Now
from django.dispatch import Signal
from psycopg.types.json import Jsonb

from jobs import telemetry
from jobs.models import Job
from jobs.states import State

log = structlog.get_logger(__name__)

UNKNOWN_TYPE_PATIENCE_SECONDS = 60.0  # a rolling deployment brings new workers within it
HARD_DEADLINE_MARGIN_SECONDS = 5.0  # after limit and grace, before the keeper kills (P13)

# A job has ended: job_id, and awaited, whether somebody waits for it (P31). Sent by whoever ended it, in its thread.
ended = Signal()


@dataclass(frozen=True)
class Claim:
    """The right to run one attempt. `attempt` is its number and its fencing token."""

    job_id: UUID
    attempt: int
    token: int  # of this attempt among all attempts of all jobs
    type: str
    cost_class: str
    params: dict[str, Any]
    limit_seconds: float  # the job's timeout, or what is left to its deadline if that is less
    remaining_seconds: float | None  # to its deadline; None if it has none
    failures: int
    max_attempts: int
    wait_seconds: float
    request_id: str


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
    job_id, attempt, token, job_type, in_class, params, *rest = row
    return Claim(job_id, attempt, token, job_type, in_class, json.loads(params), *rest)  # Django leaves jsonb as text


# Takes no lock that an admission holds (P6), and steps over rows that others hold. A node that is stopping,
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
        hard_deadline = least(clock_timestamp() + make_interval(secs => timeout_seconds), deadline_at)
                        + make_interval(secs => %(kill_after)s)
    FROM candidate WHERE job.id = candidate.id
    RETURNING job.*, extract(epoch FROM clock_timestamp() - greatest(accepted_at, available_at))::float8 AS waited,
              extract(epoch FROM deadline_at - clock_timestamp())::float8 AS remaining
), opened AS (
    INSERT INTO jobs_attempt (job_id, number, node_id, pid, process_started, started_at, wait_seconds)
    SELECT id, attempt, node_id, pid, process_started, clock_timestamp(), waited FROM claimed
    RETURNING id AS token
)
SELECT id, attempt, token, type, cost_class, params, least(timeout_seconds, remaining), remaining, failures, max_attempts,
       waited, request_id FROM claimed, opened
"""


Moved = tuple[UUID, str, str, bool]  # of one job: its id, the state it is in now, its class, whether somebody waits


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


def settle(job_id: UUID, attempt: int, outcome: Outcome) -> State | None:
    """The state the job ended in; None if this attempt no longer owns it, and then nothing changed (P18).

    Once a cancel was answered with 202 the end is `cancelled`, whatever the attempt brought (P20).
    """
    state = _state_of(_end(_SETTLE, _settlement(job_id, attempt, outcome)))
    if state is None:
        telemetry.STALE_SETTLES.inc()
        log.warning("stale_settle", job_id=str(job_id), attempt=attempt, outcome=outcome.state.value)
    return state


def _state_of(rows: list[Moved]) -> State | None:
    return State(rows[0][1]) if rows else None


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
        run_seconds = coalesce(coalesce(run_seconds, 0) + %(run)s, run_seconds),
        cpu_seconds = coalesce(coalesce(cpu_seconds, 0) + %(cpu)s, cpu_seconds),
        peak_rss_bytes = greatest(peak_rss_bytes, %(peak)s)
"""
_AWAITED = "coalesce(awaited_until > clock_timestamp(), false)"
_CLOSED = """
    UPDATE jobs_attempt
    SET finished_at = clock_timestamp(), error_code = %(code)s, error_detail = %(detail)s, log = %(log)s,
        run_seconds = %(run)s, cpu_seconds = %(cpu)s, peak_rss_bytes = %(peak)s, outcome = CASE
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
    RETURNING id, attempt, state, cost_class, awaited_until
), closed AS (
    {_CLOSED} %(lost)s WHEN 0 THEN ended.state ELSE 'lost' END
    FROM ended WHERE jobs_attempt.job_id = ended.id AND number = ended.attempt
)
SELECT id, state, cost_class, {_AWAITED} FROM ended
"""


def _returning(which: str) -> str:
    """The statement that gives the running jobs `which` selects back to the queue, and closes their attempts.

    After a run `start_by` is the deadline, or nothing (P8). A job whose cancel was answered is never given
    back: it is left for the statement that ends it (P20).
    """
    return f"""
WITH returned AS (
    UPDATE jobs_job
    SET state = 'queued', available_at = clock_timestamp() + make_interval(secs => %(after)s), start_by = deadline_at,
        failures = failures + %(failed)s, lost = lost + %(lost)s,
        progress_fraction = NULL, progress_note = '', {_LEASE_OVER}
    WHERE state = 'running' AND cancel_requested_at IS NULL AND {which}
    RETURNING id, attempt, cost_class
), closed AS (
    {_CLOSED} WHEN %(lost)s > 0 THEN 'lost' WHEN %(failed)s > 0 THEN 'retried' ELSE 'released' END
    FROM returned WHERE jobs_attempt.job_id = returned.id AND number = returned.attempt
)
SELECT id, 'queued', cost_class, false FROM returned
"""


_OWN = "id = %(job)s AND attempt = %(attempt)s"
_LOST_NOW = f"{_OWN} AND (NOT %(overdue_only)s OR lease_until < clock_timestamp())"

_SETTLE = _ending(_OWN)
_GIVE_BACK = _returning(_OWN)
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


def give_back(job_id: UUID, attempt: int, outcome: Outcome, after_seconds: float) -> State | None:
    """Queue a job again after an attempt that failed: what the attempt brought is `outcome`.

    QUEUED, or what it became instead if a cancel was answered in the meantime; None for a stale attempt.
    """
    if _end(_GIVE_BACK, {**_settlement(job_id, attempt, outcome), "after": after_seconds}):
        return State.QUEUED
    return settle(job_id, attempt, outcome)


def release(job_id: UUID, attempt: int) -> State | None:
    """Give a job back without blame: its node is stopping, and the grace is over (P26)."""
    released = Outcome(State.FAILED, error_code="released", detail="Its worker was stopped before it had finished.")
    if _end(_GIVE_BACK, {**_settlement(job_id, attempt, released), "failed": 0, "after": 0.0}):
        return State.QUEUED
    return settle(job_id, attempt, released)


def lose(job_id: UUID, attempt: int, detail: str = "", kept_log: str = "", overdue_only: bool = False) -> State | None:
    """An attempt ended with its child: queue the job again, or end it if that happened too often (P26).

    With `overdue_only`, nothing is done for a lease that was renewed in the meantime.
    """
    lost = {"failed": 0, "lost": 1, "after": 0.0, "overdue_only": overdue_only}
    settlement = {**_settlement(job_id, attempt, replace(_LOST, detail=detail, log=kept_log)), **lost}
    if _end(_REQUEUE_LOST, settlement):
        return State.QUEUED
    return _state_of(_end(_END_LOST, settlement | _why_not_again(job_id)))


def _why_not_again(job_id: UUID) -> dict[str, str]:
    """What is said of a lost job that is not delivered again. Only its one running attempt could change the answer."""
    job = Job.objects.only("lost", "max_deliveries").filter(pk=job_id).first()
    if job is None or job.lost + 1 < job.max_deliveries:
        return {"code": _LOST.error_code, "message": _LOST.error_message, "stopped_by": "no_time"}
    outcome = _POISON if job.max_deliveries > 1 else _LOST
    return {"code": outcome.error_code, "message": outcome.error_message, "stopped_by": "attempts"}


def reap() -> int:
    """Requeue or end every running job whose lease is over; the number of them. When to, P17 says."""
    overdue = Job.objects.filter(state=State.RUNNING, lease_until__lt=Now()).values_list("pk", "attempt")
    return sum(
        lose(job_id, attempt, "Its lease was over.", overdue_only=True) is not None for job_id, attempt in overdue
    )


def _end(statement: str, arguments: dict[str, Any]) -> list[Moved]:
    rows = _moved(statement, arguments)
    for job_id, state, _, _ in rows:
        log.info("attempt_ended", job_id=str(job_id), state=state, code=arguments["code"])
    return rows


def _moved(statement: str, arguments: dict[str, Any]) -> list[Moved]:
    """Run it; count the ends among its moves, and say that they are."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        rows: list[Moved] = cursor.fetchall()
    for job_id, state, cost_class, awaited in rows:
        if State(state).terminal:
            telemetry.FINISHED.labels(cost_class, state).inc()
            ended.send(None, job_id=job_id, awaited=awaited)
    return rows


def cancel(job_id: UUID) -> State | None:
    """End a queued job now (CANCELLED); ask a running one to end (RUNNING). None if it had already ended.

    A repeated call keeps the first instant at which the cancel was asked for.
    """
    state = _state_of(_moved(_CANCEL, {"job": job_id}))
    if state is not None:
        log.info("cancel", job_id=str(job_id), state=state.value)
    return state


# One statement, because a claim may turn queued into running between any two.
_CANCEL = f"""
UPDATE jobs_job
SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
    finished_at = CASE state WHEN 'queued' THEN clock_timestamp() END,
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp())
WHERE id = %(job)s AND state IN ('queued', 'running')
RETURNING id, state, cost_class, {_AWAITED}
"""


def expire(job_id: UUID | None = None, client_id: int | None = None) -> int:
    """End queued jobs past their start_by: this one, one client's, or all; the number of them (P2, P26)."""
    rows = _moved(_EXPIRE, {"job": job_id, "client": client_id})
    for expired_id, state, _, _ in rows:
        log.info("job_expired", job_id=str(expired_id), state=state)
    return len(rows)


# SKIP LOCKED: a row that a claim or a cancel holds this moment is theirs; the next run looks again.
_EXPIRE = f"""
WITH overdue AS MATERIALIZED (
    SELECT id FROM jobs_job
    WHERE state = 'queued' AND start_by <= statement_timestamp() AND (%(job)s::uuid IS NULL OR id = %(job)s::uuid)
      AND (%(client)s::bigint IS NULL OR client_id = %(client)s::bigint)
    FOR UPDATE SKIP LOCKED
)
UPDATE jobs_job job
SET state = CASE attempt WHEN 0 THEN 'expired' ELSE 'failed' END,
    error_code = CASE WHEN attempt = 0 AND start_by < coalesce(deadline_at, 'infinity') THEN 'max_wait' ELSE 'deadline' END,
    error_message = CASE
        WHEN attempt > 0 THEN 'Its deadline passed before it could run again.'
        WHEN start_by = deadline_at THEN 'No process was free before its deadline; it never ran.'
        ELSE 'No process was free before its longest wait was over; it never ran.' END,
    stopped_by = CASE attempt WHEN 0 THEN '' ELSE 'no_time' END,
    finished_at = clock_timestamp()
FROM overdue WHERE job.id = overdue.id
RETURNING job.id, job.state, job.cost_class, {_AWAITED}
"""


def fail_unknown_types(beat: timedelta) -> int:
    """End queued jobs whose type no live node of their class knows, though one has been up long enough (P27)."""
    rows = _moved(_FAIL_UNKNOWN_TYPES, {"beat": beat, "patience": UNKNOWN_TYPE_PATIENCE_SECONDS})
    for job_id, _, _, _ in rows:
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
    finished_at = clock_timestamp()
FROM orphaned WHERE job.id = orphaned.id
RETURNING job.id, job.state, job.cost_class, {_AWAITED}
"""
