"""What the database of a stack says about its jobs, and what must hold over all of them."""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row

from jobs.states import TERMINAL


@dataclass(frozen=True)
class Record:
    """One row of the jobs table. Instants are the database's."""

    id: str
    state: str
    error_code: str
    accepted_at: datetime
    start_by: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    admitted_bound: int

    def held_a_place_at(self, instant: datetime) -> bool:
        """Running, or queued and not past its start_by (P2)."""
        if self.accepted_at > instant or (self.finished_at is not None and self.finished_at <= instant):
            return False
        waited = self.started_at is None or self.started_at > instant
        return not (waited and self.start_by is not None and self.start_by <= instant)


def jobs(database_url: str, cost_class: str = "%") -> list[Record]:
    """In the order of admission."""
    with psycopg.connect(database_url) as connection, connection.cursor(row_factory=class_row(Record)) as cursor:
        cursor.execute(
            """
            SELECT id::text, state, error_code, accepted_at, start_by, started_at, finished_at, attempt, admitted_bound
            FROM jobs_job WHERE cost_class LIKE %s ORDER BY sequence
            """,
            [cost_class],
        )
        return cursor.fetchall()


def must_hold_over(records: list[Record]) -> None:
    """P3 at every admission of one class; every job ended, in one state."""
    for record in records:
        live = sum(other.held_a_place_at(record.accepted_at) for other in records)
        assert live <= record.admitted_bound, f"{record.id}: {live} jobs in the class, the bound was {record}"
        assert record.state in TERMINAL, f"{record.id} is {record.state}"


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)
