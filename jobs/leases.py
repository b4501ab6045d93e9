"""What keeps a running attempt alive in the database: its lease, and the progress it reports. No state moves here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection


@dataclass(frozen=True)
class Lease:
    """One running attempt of a node, as the database has it."""

    job_id: UUID
    attempt: int
    token: int
    pid: int
    process_started: int
    type: str
    cost_class: str
    request_id: str
    failures: int
    max_attempts: int
    remaining_seconds: float | None  # to its deadline; None if it has none
    hard_seconds: float  # until the keeper must kill it
    cancel_requested: bool
    deadline_at: datetime | None = None


def of_node(node_id: UUID) -> list[Lease]:
    """What a node runs, by the database."""
    with connection.cursor() as cursor:
        cursor.execute(_LEASES, [node_id])
        return [Lease(*row) for row in cursor.fetchall()]


_LEASES = """
SELECT job.id, job.attempt, open.id, job.pid, job.process_started, job.type, job.cost_class, job.request_id,
       job.failures, job.max_attempts,
       extract(epoch FROM job.deadline_at - clock_timestamp())::float8,
       extract(epoch FROM job.hard_deadline - clock_timestamp())::float8, job.cancel_requested_at IS NOT NULL, job.deadline_at
FROM jobs_job job JOIN jobs_attempt open ON open.job_id = job.id AND open.number = job.attempt
WHERE job.state = 'running' AND job.node_id = %s
"""


def renew(node_id: UUID, leases: Sequence[Lease], lease_seconds: float) -> int:
    """Extend the leases whose child lives; the number extended. One that was lost shows in the next look at them."""
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


# SKIP LOCKED: whoever holds one row, an operator's open transaction say, must not hold up all the node's leases.
_RENEW = """
WITH held AS MATERIALIZED (
    SELECT job.id
    FROM unnest(%(jobs)s::uuid[], %(attempts)s::integer[]) AS lease (job_id, number)
    JOIN jobs_job job ON job.id = lease.job_id AND job.attempt = lease.number
    WHERE job.state = 'running' AND job.node_id = %(node)s
    FOR NO KEY UPDATE OF job SKIP LOCKED
)
UPDATE jobs_job SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
FROM held WHERE jobs_job.id = held.id
"""


def report_progress(own_connection: Any, job_id: UUID, attempt: int, fraction: float, note: str) -> None:
    """Shown to whoever looks; a stale attempt changes nothing, and a row that somebody holds is left alone."""
    with own_connection.cursor() as cursor:
        cursor.execute(_PROGRESS, {"job": job_id, "attempt": attempt, "fraction": fraction, "note": note})


_PROGRESS = """
UPDATE jobs_job SET progress_fraction = %(fraction)s, progress_note = %(note)s
WHERE id = (SELECT id FROM jobs_job WHERE id = %(job)s AND attempt = %(attempt)s AND state = 'running'
            FOR NO KEY UPDATE SKIP LOCKED)
"""
