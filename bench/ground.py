"""Where it is measured: a running stack, and the jobs of a measurement, which bear a label.

The database is asked in plain SQL, since a process that measures is to hold no Django.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg.types.json import Jsonb

from bench.load import Connection, Unexpected, request
from stack.local import Stack

JOBS = "/api/v1/jobs"
LOOK_SECONDS = 0.05  # each look at the database is a new connection, which costs milliseconds of processor time


@dataclass(frozen=True)
class Ground:
    """`waits_in` is a class whose jobs only wait, with room for as many as are submitted; `runs_in` one whose jobs start at once."""

    stack: Stack
    waits_in: str
    runs_in: str
    labels: Mapping[str, str] = field(default_factory=lambda: {"bench": "bench"})

    def submit(self, cost_class: str, sleep_seconds: float = 0.0, prefer: str = "") -> bytes:
        """The request that submits one small job."""
        params = {"seconds": sleep_seconds, "cost_class": cost_class}
        body = {"type": "probe.sleep", "params": params, "labels": dict(self.labels)}
        return request("POST", JOBS, self.stack.key, body, prefer)

    def read(self, job_id: str, prefer: str = "") -> bytes:
        return request("GET", f"{JOBS}/{job_id}", self.stack.key, prefer=prefer)

    def connection(self) -> Connection:
        """To our own web processes."""
        return Connection(self.stack.port)

    def clear(self) -> None:
        """Away with what no worker has touched: the door counts those who wait, so each pass is to begin with none."""
        with self._database() as database:
            database.execute(
                "DELETE FROM jobs_job WHERE labels @> %s AND attempt = 0 AND state <> 'running'", [self._label()]
            )
            database.execute("VACUUM jobs_job")

    def waiting_jobs(self) -> list[str]:
        """The ids of this measurement's jobs that are queued."""
        with self._database() as database:
            found = database.execute(
                "SELECT id::text FROM jobs_job WHERE labels @> %s AND state = 'queued'", [self._label()]
            )
            return [str(row[0]) for row in found]

    def awaited(self) -> int:
        """How many of its queued jobs somebody waits for."""
        return self._count("state = 'queued' AND awaited_until > now()")

    def withdrawn(self) -> int:
        return self._count("state = 'cancelled'")

    def last_end(self) -> float:
        """When the last of its jobs ended, by the database's clock, as time.time() counts."""
        with self._database() as database:
            row = database.execute(
                "SELECT extract(epoch FROM max(finished_at))::float8 FROM jobs_job WHERE labels @> %s", [self._label()]
            ).fetchone()
        return float(row[0]) if row and row[0] is not None else 0.0

    def ended_at(self, job_id: str) -> float:
        """When the job's end was stored: to the microsecond, where the API tells milliseconds."""
        with self._database() as database:
            row = database.execute(
                "SELECT extract(epoch FROM finished_at)::float8 FROM jobs_job WHERE id = %s", [job_id]
            ).fetchone()
        if row is None or row[0] is None:
            raise Unexpected(f"The job {job_id} has not ended.")
        return float(row[0])

    def _count(self, which: str) -> int:
        with self._database() as database:
            row = database.execute(
                f"SELECT count(*) FROM jobs_job WHERE labels @> %s AND {which}", [self._label()]
            ).fetchone()
        return int(row[0]) if row else 0

    def _label(self) -> Jsonb:
        return Jsonb(dict(self.labels))

    def _database(self) -> psycopg.Connection:
        return psycopg.connect(self.stack.database_url, autocommit=True)


def wait_until(
    condition: Callable[[], bool], what: str, within_seconds: float = 30.0, look_seconds: float = LOOK_SECONDS
) -> None:
    """Raises Unexpected when it takes longer."""
    until = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > until:
            raise Unexpected(f"After {within_seconds:.0f} s {what}.")
        time.sleep(look_seconds)
