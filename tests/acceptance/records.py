"""What the database of a stack says about its jobs."""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

import psycopg
from psycopg.rows import class_row

from tests.history.recorder import SUBMISSION


@dataclass(frozen=True)
class Record:
    """One row of the jobs table. Instants are the database's."""

    id: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    admitted_bound: int


def jobs(database_url: str, cost_class: str = "%") -> list[Record]:
    """In the order of admission."""
    with psycopg.connect(database_url) as connection, connection.cursor(row_factory=class_row(Record)) as cursor:
        cursor.execute(
            """
            SELECT id::text, state, started_at, finished_at, admitted_bound
            FROM jobs_job WHERE cost_class LIKE %s ORDER BY sequence
            """,
            [cost_class],
        )
        return cursor.fetchall()


def job_of(database_url: str, submission: str) -> str | None:
    """The id of the job that bears the label of a submission."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT id::text FROM jobs_job WHERE labels->>%s = %s", [SUBMISSION, submission]
        ).fetchone()
    return None if row is None else str(row[0])


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)


def batches(database_url: str) -> set[str]:
    """Ids of all."""
    return _ids(database_url, "SELECT id FROM jobs_batch")


def uploads(database_url: str) -> set[str]:
    """Ids of all that are kept."""
    return _ids(database_url, "SELECT id FROM jobs_upload")


def _ids(database_url: str, statement: LiteralString) -> set[str]:
    with psycopg.connect(database_url) as connection:
        return {str(row[0]) for row in connection.execute(statement).fetchall()}


def forget_unrecorded(database_url: str) -> None:
    """Ended jobs that no history told of, with what hangs on them: the next test's checker would take them for strangers."""
    unrecorded = "SELECT id FROM jobs_job WHERE labels->>%(label)s IS NULL AND finished_at IS NOT NULL"
    with psycopg.connect(database_url) as connection:
        for table, column in connection.execute(_HANGS_ON_A_JOB).fetchall():
            connection.execute(f"DELETE FROM {table} WHERE {column} IN ({unrecorded})", {"label": SUBMISSION})
        connection.execute(f"DELETE FROM jobs_job WHERE id IN ({unrecorded})", {"label": SUBMISSION})


_HANGS_ON_A_JOB = """
SELECT conrelid::regclass::text, attname FROM pg_constraint
JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
WHERE contype = 'f' AND confrelid = 'jobs_job'::regclass
"""
