"""What all moves have in common: the row that moved, its count, and word of its end."""

from typing import Any
from uuid import UUID

from django.db import connection
from django.dispatch import Signal

from jobs import telemetry
from jobs.states import State

# A job has ended: job_id, and awaited, whether somebody waits for it (P31). Sent by whoever ended it, in its thread.
ended = Signal()

Moved = tuple[UUID, str, str, bool]  # of one job: its id, the state it is in now, its class, whether somebody waits

# In a RETURNING.
AWAITED = "coalesce(awaited_until > clock_timestamp(), false)"


def moved(statement: str, arguments: dict[str, Any]) -> list[Moved]:
    """Run it; count the ends among its moves, and say that they are."""
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        rows: list[Moved] = cursor.fetchall()
    for job_id, state, cost_class, awaited in rows:
        if State(state).terminal:
            telemetry.FINISHED.labels(cost_class, state).inc()
            ended.send(None, job_id=job_id, awaited=awaited)
    return rows


def state_of(rows: list[Moved]) -> State | None:
    """Of the one job that a move was about; None if it did not move."""
    return State(rows[0][1]) if rows else None
