"""Figures about classes, and the plans behind the statements that every job pays for."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import TestCase

from jobs import classes, kept, leases, lifecycle, listing, queries, sweeps
from jobs.capacity import DRAIN_NEEDS, DRAIN_WINDOW_SECONDS, Room
from jobs.door import idempotency
from jobs.door.idempotency import Idempotency
from jobs.lifecycle import Outcome
from jobs.listing import Filters, Page
from jobs.models import Job, WorkerNode
from jobs.queries import ClassView
from jobs.states import TERMINAL, State
from tests import job_rows
from tests.submissions import a_class, submit, verdict

pytestmark = pytest.mark.django_db


def _ago(seconds: float) -> Any:
    return Now() - timedelta(seconds=seconds)


def _departures(count: int, seconds_ago: float, accepted_ago: float = 3600, **fields: Any) -> None:
    for _ in range(count):
        job_rows.a_finished_job(finished_at=_ago(seconds_ago), accepted_at=_ago(accepted_ago), **fields)


# ── Drain ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("count", "drain"), [(4, None), (5, 5 / 60), (6, 6 / 60)])
def test_drain_is_measured_from_five_departures_on(count: int, drain: float | None) -> None:
    assert (DRAIN_NEEDS, DRAIN_WINDOW_SECONDS) == (5, 60)
    _departures(count, 30)
    assert queries.drain("light") == (drain and pytest.approx(drain))


@pytest.mark.parametrize(("seconds_ago", "drain"), [(55, 5 / 60), (61, None)])
def test_drain_is_measured_over_the_last_minute(seconds_ago: float, drain: float | None) -> None:
    _departures(5, seconds_ago)
    assert queries.drain("light") == (drain and pytest.approx(drain))


def test_all_ways_of_leaving_count() -> None:
    for state in sorted(TERMINAL):
        _departures(2, 10, state=state)
    assert queries.drain("light") == pytest.approx(8 / 60)


def test_a_class_that_has_only_begun_is_measured_over_its_own_time() -> None:
    """Ten departures in its first 20 s are one in two seconds, not one in six."""
    _departures(10, 5, accepted_ago=20)
    assert queries.drain("light") == pytest.approx(10 / 20, rel=0.1)


def test_drain_is_measured_by_class() -> None:
    _departures(5, 10, cost_class="heavy")
    assert queries.drain("light") is None
    assert queries.drain("heavy") is not None


# ── Kept answers ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(kept, "time", clock)
    return clock


@pytest.mark.parametrize(("later", "waiting"), [(0.9, 0), (1.1, 1)])
def test_a_view_of_a_class_is_a_second_old_at_most(clock: Clock, later: float, waiting: int) -> None:
    assert queries.class_view("light").room.waiting == 0
    job_rows.a_queued_job()
    clock.now += later
    assert queries.class_view("light").room.waiting == waiting


@pytest.mark.parametrize(("later", "measured"), [(0.9, False), (1.1, True)])
def test_a_measured_drain_is_a_second_old_at_most(clock: Clock, later: float, measured: bool) -> None:
    assert queries.drain("light") is None
    _departures(5, 10)
    clock.now += later
    assert (queries.drain("light") is not None) is measured


def test_a_kept_answer_of_one_class_is_not_anothers(clock: Clock) -> None:
    job_rows.a_queued_job("light")
    assert [queries.class_view(name).room.waiting for name in ("light", "heavy")] == [1, 0]


def test_an_answer_that_failed_is_asked_for_again(clock: Clock) -> None:
    with pytest.raises(KeyError):
        queries.class_view("none such")
    with pytest.raises(KeyError):
        queries.class_view("none such")
    assert queries.class_view("light").room.waiting == 0


# ── Depth figures ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_declared_class_is_shown() -> None:
    assert [view.cost_class.name for view in queries.class_views()] == list(classes.declared())


@pytest.mark.parametrize(("waiting", "accepting"), [(4, True), (5, False)])
def test_a_class_accepts_while_it_has_room(waiting: int, accepting: bool) -> None:
    room = Room(waiting=waiting - 1, running=1, slots=2)
    assert ClassView(a_class(max_waiting=3), room, 1, datetime.now(UTC)).accepting is accepting


def test_the_oldest_waiting_job_tells_its_age() -> None:
    assert queries.oldest_waiting_seconds("light") == 0
    job_rows.a_queued_job(accepted_at=_ago(50))
    job_rows.a_queued_job(accepted_at=_ago(20))
    job_rows.a_queued_job("heavy", accepted_at=_ago(500))
    assert 50 <= queries.oldest_waiting_seconds("light") < 60


def test_the_oldest_waiting_job_is_one_that_waits() -> None:
    job_rows.a_running_job(job_rows.a_node(), accepted_at=_ago(50))
    job_rows.a_finished_job(accepted_at=_ago(50))
    assert queries.oldest_waiting_seconds("light") == 0


def test_each_sweep_tells_when_it_ran_last() -> None:
    assert queries.sweep_ages() == {}
    sweeps.take_turn(sweeps.Sweep("s", 1, lambda: 0))
    age = queries.sweep_ages()["s"]
    assert age is not None and 0 <= age < 10


def test_another_clients_job_is_not_there() -> None:
    job = job_rows.a_queued_job()
    assert queries.job_of(job.client_id, job.pk) == job
    with pytest.raises(Job.DoesNotExist):
        queries.job_of(job_rows.a_client("another").pk, job.pk)


# ── Plans, beside 200,000 jobs that have ended ───────────────────────────────────────────────────────────────────────

_HISTORY = """
ALTER TABLE jobs_job DISABLE TRIGGER job_begins;
INSERT INTO jobs_job (client_id, type, cost_class, params, labels, request_id, timeout_seconds, admitted_bound, state,
                      accepted_at, started_at, attempt, finished_at)
SELECT {client}, '{type}', CASE n % 2 WHEN 0 THEN 'light' ELSE 'heavy' END, '{{}}', '{{}}', '', 10, 10,
       'succeeded', now() - make_interval(secs => n * 2), now() - make_interval(secs => n * 2), 1,
       now() - make_interval(secs => n * 2 - 1)
FROM generate_series(1, 80000) n;
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


class TestPlans(TestCase):
    """A Django TestCase because its rows are made once for all its tests."""

    node: WorkerNode

    @classmethod
    def setUpTestData(cls) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_HISTORY.format(client=job_rows.a_client().pk, type=job_rows.TYPE))
            for _ in range(20):
                job_rows.a_queued_job(start_by=Now() + timedelta(minutes=5))
            cursor.execute("ANALYZE jobs_job")
        cls.node = job_rows.a_node()

    def test_no_statement_that_a_job_pays_for_reads_the_whole_table(self) -> None:
        steps: dict[str, Callable[[], object]] = {
            "admission": lambda: verdict(submit(1000)),
            "claim": lambda: job_rows.claim(self.node),
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
