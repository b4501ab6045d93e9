"""Figures about classes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import classes, kept, queries, sweeps
from jobs.capacity import DRAIN_NEEDS, DRAIN_WINDOW_SECONDS, Room
from jobs.models import Job
from jobs.queries import ClassView
from jobs.states import TERMINAL
from tests import job_rows
from tests.submissions import a_class

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
