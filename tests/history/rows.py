"""The final rows of a stack's database. Instants are the database's clock, in seconds since 1970."""

from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from tests.history.recorder import SUBMISSION, now


@dataclass(frozen=True)
class JobRow:
    """`submission` is the label of that name, empty for jobs that no recording client asked for."""

    id: str
    submission: str
    type: str
    cost_class: str
    state: str
    error_code: str
    admitted_bound: int
    attempt: int
    accepted_at: float
    start_by: float | None = None
    finished_at: float | None = None
    cancel_requested_at: float | None = None
    deadline_at: float | None = None


@dataclass(frozen=True)
class AttemptRow:
    job_id: str
    number: int
    pid: int
    started_at: float
    finished_at: float | None = None
    outcome: str = ""
    error_code: str = ""


@dataclass(frozen=True)
class Rows:
    """`jobs` in the order of admission. `ahead_seconds`: the database's clock minus that of the events."""

    jobs: tuple[JobRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    ahead_seconds: float = 0.0


_JOBS = """
SELECT id::text, coalesce(labels->>%s, '') AS submission, type, cost_class, state, error_code,
       admitted_bound, attempt,
       extract(epoch FROM accepted_at)::float8 AS accepted_at, extract(epoch FROM start_by)::float8 AS start_by,
       extract(epoch FROM finished_at)::float8 AS finished_at,
       extract(epoch FROM cancel_requested_at)::float8 AS cancel_requested_at,
       extract(epoch FROM deadline_at)::float8 AS deadline_at
FROM jobs_job ORDER BY sequence
"""
_ATTEMPTS = """
SELECT job_id::text, number, pid, extract(epoch FROM started_at)::float8 AS started_at,
       extract(epoch FROM finished_at)::float8 AS finished_at, outcome, error_code
FROM jobs_attempt ORDER BY job_id, number
"""


def read(database_url: str) -> Rows:
    """All of them, as of one instant."""
    with psycopg.connect(database_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.cursor(row_factory=class_row(JobRow)) as cursor:
            jobs = cursor.execute(_JOBS, [SUBMISSION]).fetchall()
        with connection.cursor(row_factory=class_row(AttemptRow)) as cursor:
            attempts = cursor.execute(_ATTEMPTS).fetchall()
        instant = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert instant is not None
        return Rows(tuple(jobs), tuple(attempts), instant[0] - now())
