"""What the database says was done in a time."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

import psycopg

from stack.local import Stack


@dataclass(frozen=True)
class Done:
    """Of the jobs of one class in a while. Seconds."""

    per_second: float  # that were finished in time; one that ran only partly within the while counts by that part
    states: Counter[str]  # of those that were accepted in it
    waits: list[float]  # of those of them that have started, in order


def clock(stack: Stack) -> datetime:
    """The database's."""
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]  # type: ignore[no-any-return]


def done(stack: Stack, cost_class: str, since: datetime, until: datetime, client: str = "%") -> Done:
    of = {"cost_class": cost_class, "since": since, "until": until, "client": client}
    with psycopg.connect(stack.database_url) as database:
        work = database.execute(_WORK, of).fetchone()
        jobs = database.execute(_JOBS, of).fetchall()
    states = Counter(str(state) for state, _ in jobs)
    waits = sorted(float(wait) for _, wait in jobs if wait is not None)
    return Done(float((work and work[0]) or 0) / (until - since).total_seconds(), states, waits)


_WORK = """
SELECT sum(extract(epoch FROM least(finished_at, %(until)s) - greatest(started_at, %(since)s))
           / greatest(0.001, extract(epoch FROM finished_at - started_at)))
FROM jobs_job WHERE cost_class = %(cost_class)s AND state = 'succeeded' AND finished_at > %(since)s AND started_at < %(until)s
"""

_JOBS = """
SELECT job.state, extract(epoch FROM job.started_at - job.accepted_at)
FROM jobs_job job JOIN jobs_apiclient client ON client.id = job.client_id
WHERE job.cost_class = %(cost_class)s AND job.accepted_at BETWEEN %(since)s AND %(until)s AND client.name LIKE %(client)s
"""
