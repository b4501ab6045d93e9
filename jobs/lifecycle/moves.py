"""What all moves have in common: the row that moved, its count, and word of its end."""

from typing import Any
from uuid import UUID

from django.db import connection
from django.dispatch import Signal

from jobs import telemetry
from jobs.states import State

# A job has ended: job_id, and awaited, whether somebody waits for it (P31). Sent by whoever ended it, in its thread.
ended = Signal()
# Jobs of a batch have ended: batch_id. Once for all that one statement ended.
ended_in_batch = Signal()

Moved = tuple[
    UUID, str, str, bool, UUID | None
]  # of one job: its id, its state now, its class, whether somebody waits, its batch

# The latest instant at which a job with a deadline may still start usefully, as admissions store it in start_by (P8).
LATEST_START = "(deadline_at - make_interval(secs => coalesce(expected_seconds, 0)))"

# In a RETURNING, after the first three.
AWAITED = "coalesce(awaited_until > clock_timestamp(), false), batch_id"


def moved(statement: str, arguments: dict[str, Any]) -> list[Moved]:
    """Run it; count the ends among its moves, and say that they are."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        rows: list[Moved] = cursor.fetchall()
    batches = set()
    for job_id, state, cost_class, awaited, batch_id in rows:
        if State(state).terminal:
            telemetry.FINISHED.labels(cost_class, state).inc()
            ended.send(None, job_id=job_id, awaited=awaited)
            batches.add(batch_id)
    for batch_id in batches - {None}:
        ended_in_batch.send(None, batch_id=batch_id)
    return rows


def state_of(rows: list[Moved]) -> State | None:
    """Of the one job that a move was about; None if it did not move."""
    return State(rows[0][1]) if rows else None
