"""queued → running: the right to run one attempt, given to one process (P13)."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

HARD_DEADLINE_MARGIN_SECONDS = 5.0  # after limit and grace, before the keeper kills (P13)


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
    wait_seconds: float  # since it could first start: since its acceptance, or since its backoff was over
    request_id: str
    deadline_at: datetime | None = None
    traceparent: str = ""


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
       waited, request_id, deadline_at, traceparent FROM claimed, opened
"""
