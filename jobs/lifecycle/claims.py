"""queued → running: the right to run one attempt, given to one process (P11a, P13)."""

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
    has_limits: bool = False  # jobs that these held may start when it has ended (P12)
    late_seconds: float | None = None  # its first start, after what was estimated at its admission; None: nothing was


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


# See jobs/sql/claim_v1.sql.
_CLAIM = """
SELECT * FROM claim_v1(%(cost_class)s, %(types)s, %(node)s, %(pid)s, %(process_started)s, %(lease)s, %(kill_after)s)
"""
