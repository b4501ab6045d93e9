"""The plans behind the statements that every job pays for, beside 80,000 jobs that have ended; with --full, a million."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import TestCase

from jobs import batches, costs, leases, lifecycle, listing, queries, sweeps
from jobs.capacity import DRAIN_WINDOW_SECONDS
from jobs.door import idempotency
from jobs.door.idempotency import Idempotency
from jobs.lifecycle import Outcome
from jobs.listing import Filters, Page
from jobs.models import Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.submissions import a_batch, a_submission, batch_verdict, submit, verdict

_HISTORY = """
ALTER TABLE jobs_job DISABLE TRIGGER job_begins;
INSERT INTO jobs_job (client_id, type, cost_class, params, labels, request_id, timeout_seconds, admitted_bound, state,
                      accepted_at, started_at, attempt, finished_at)
SELECT {client}, '{type}', CASE n % 2 WHEN 0 THEN 'light' ELSE 'heavy' END, '{{}}', '{{}}', '', 10, 10,
       'succeeded', now() - make_interval(secs => n * 2), now() - make_interval(secs => n * 2), 1,
       now() - make_interval(secs => n * 2 - 1)
FROM generate_series(1, {count}) n;
SET CONSTRAINTS ALL IMMEDIATE;
ALTER TABLE jobs_job ENABLE TRIGGER job_begins;
"""


@contextmanager
def _no_scan_of_all_jobs(what: str) -> Iterator[None]:
    """Counts the sequential scans that really happened, inside functions too, whatever EXPLAIN would say."""
    before = _scans()
    yield
    assert _scans() == before, f"{what} read the whole table"


def _scans() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'")
        return int(cursor.fetchone()[0])


@pytest.fixture(scope="module", autouse=True)
def history(full: bool) -> None:
    if full:
        TestPlans.ended = 1_000_000


class TestPlans(TestCase):
    """A Django TestCase because its rows are made once for all its tests."""

    node: WorkerNode
    ended = 80_000

    @classmethod
    def setUpTestData(cls) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_HISTORY.format(client=job_rows.a_client().pk, type=job_rows.TYPE, count=cls.ended))
            for _ in range(20):
                job_rows.a_queued_job(start_by=Now() + timedelta(minutes=5))
            cursor.execute("ANALYZE jobs_job")
        cls.node = job_rows.a_node()

    def test_no_statement_that_a_job_pays_for_reads_the_whole_table(self) -> None:
        steps: dict[str, Callable[[], object]] = {
            "admission": lambda: verdict(submit(1000)),
            "admission with a deadline": lambda: verdict(submit(1000, deadline_in_seconds=9.0)),
            "admission of a batch": lambda: batch_verdict(batches.submit(a_batch({"a": a_submission(1000)}))),
            "claim": lambda: job_rows.claim(self.node),
            "learning": costs.learn,
            "room": lambda: queries.room("light"),
            "claimable": lambda: queries.claimable("light"),
            "leases": lambda: leases.of_node(self.node.pk),
            "renewal": lambda: leases.renew(self.node.pk, leases.of_node(self.node.pk), 30),
            "settle": lambda: lifecycle.settle(uuid4(), 1, Outcome(State.SUCCEEDED)),
            "cancel": lambda: lifecycle.cancel(uuid4()),
            "cancel of a batch": lambda: lifecycle.cancel_batch(uuid4()),
            "withdrawal of a batch": lambda: lifecycle.withdraw_batch(uuid4()),
            "seals that are due": sweeps.seal,
            "expire": lifecycle.expire,
            "expire one": lambda: lifecycle.expire(uuid4()),
            "reap": lifecycle.reap,
            "oldest waiting": lambda: queries.oldest_waiting_seconds("light"),
            "prune": self._prune,
            "first page": lambda: self._page(Filters(), None),
            "page far back": lambda: self._page(Filters(), 60_000),
            "page of a rare type": lambda: self._page(Filters(type="no.such"), None),
            "look-up of a key": lambda: idempotency.job_under(job_rows.a_client().pk, Idempotency("k", "f")),
        }
        for what, step in steps.items():
            with _no_scan_of_all_jobs(what):
                for _ in range(8):  # from the sixth run on, a function's plan is the general one
                    step()

    def _prune(self) -> None:
        """Only so many: what it does with each of them takes time of its own."""
        with patch.object(sweeps, "PRUNE_BATCH", 50), patch.object(sweeps, "PRUNE_BATCHES", 2):
            sweeps.prune()

    def _page(self, filters: Filters, before: int | None) -> Page:
        return listing.page(job_rows.a_client().pk, filters, before, 50)

    def test_the_drain_reads_the_last_minute_only(self) -> None:
        with _no_scan_of_all_jobs("drain"):
            queries._measure_drain("light")
        arguments = {"cost_class": "light", "window": DRAIN_WINDOW_SECONDS}
        assert re.search(r"Index Cond: .*finished_at", _plan(queries._DEPARTURES, arguments))

    def test_a_scan_of_the_whole_table_would_be_seen(self) -> None:
        with pytest.raises(AssertionError, match="whole table"), _no_scan_of_all_jobs("this"):
            list(Job.objects.filter(request_id="no index knows it"))

    def test_a_claim_reads_few_rows_however_many_wait(self) -> None:
        """The orders come from indexes: of the class, of the client's flows, of the flow's own."""
        for number in range(300):
            job_rows.a_queued_job(rank=number, flow=f"flow {number % 3}", flow_rank=number, own_order=-number)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_job")
        for _ in range(8):  # from the sixth run on, a function's plan is the general one
            before = _rows_read()
            assert job_rows.claim(self.node) is not None
            assert 3 <= _rows_read() - before <= 40

    def test_the_room_of_a_class_is_counted_in_an_index_of_live_jobs(self) -> None:
        plan = _plan("SELECT * FROM class_room_v1('light', '1 second')", {})
        assert "job_live" in plan
        assert "Seq Scan on jobs_job" not in plan


def _rows_read() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'")
        return int(cursor.fetchone()[0])


def _plan(statement: str, arguments: dict[str, Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", arguments)
        return "\n".join(line for (line,) in cursor.fetchall())
