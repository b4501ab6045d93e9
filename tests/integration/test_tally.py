"""What the door answered, by the minute: counted in memory, added to those of others, kept while the database is away."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext

from jobs import sweeps, tally
from jobs.models import ClassMinute, WorkerNode
from tests import job_rows
from tests.second_connections import Elsewhere, begun_behind
from tests.submissions import submit

pytestmark = pytest.mark.django_db


def _total(cost_class: str = "light") -> tuple[int, dict[str, int], int, int]:
    """Of all minutes: a test may run into the next one."""
    refused: dict[str, int] = {}
    rows = list(ClassMinute.objects.filter(cost_class=cost_class))
    for row in rows:
        refused = {reason: refused.get(reason, 0) + row.refused.get(reason, 0) for reason in {*refused, *row.refused}}
    admitted, returned, again = (
        sum(getattr(row, name) for row in rows) for name in ("admitted", "returned", "returned_admitted")
    )
    return admitted, refused, returned, again


@pytest.fixture
def node() -> WorkerNode:
    return job_rows.a_node()


def test_admissions_and_refusals_are_told_by_class_and_reason(node: WorkerNode) -> None:
    for _ in range(5):
        submit(0)
    submit(0, deadline_in_seconds=-1.0)
    tally.write()
    assert _total() == (2, {"queue_full": 3, "deadline_infeasible": 1}, 0, 0)
    assert _total("heavy") == (0, {}, 0, 0)


def test_what_is_written_is_added_to_what_others_wrote_and_once(node: WorkerNode) -> None:
    for reason in ("queue_full", "unavailable"):
        tally.refused("light", reason)
        tally.write()
    tally.refused("light", "queue_full", 3)
    tally.write()
    tally.write()
    assert _total() == (0, {"queue_full": 4, "unavailable": 1}, 0, 0)


def test_a_refusal_writes_nothing_and_the_minute_is_one_statement(node: WorkerNode) -> None:
    for _ in range(2):
        submit(0)
    submit(0)  # what is kept for a second is asked for now
    with CaptureQueriesContext(connection) as asked:
        submit(0)
    assert {query["sql"].split()[0] for query in asked} == {"SELECT"}
    with CaptureQueriesContext(connection) as asked:
        tally.write()
    assert len(asked) == 1


def test_callers_that_came_when_they_were_told_to_are_told_with_how_many_were_admitted(node: WorkerNode) -> None:
    for admitted in (True, False, True):
        tally.returned("light", admitted=admitted)
    tally.write()
    assert _total() == (0, {}, 3, 2)


def test_what_could_not_be_written_is_written_the_next_time(monkeypatch: pytest.MonkeyPatch, node: WorkerNode) -> None:
    def away(counts: Any) -> None:
        raise OperationalError

    tally.refused("light", "queue_full")
    with monkeypatch.context() as broken:
        broken.setattr(tally, "_write", away)
        tally.write()
    tally.refused("light", "queue_full")
    tally.write()
    assert _total() == (0, {"queue_full": 2}, 0, 0)


def test_of_several_classes_what_was_written_before_a_failure_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch, node: WorkerNode
) -> None:
    for cost_class in ("heavy", "light"):
        tally.refused(cost_class, "queue_full")
    with monkeypatch.context() as broken:
        broken.setattr(json, "dumps", _fails_the_second_time())
        tally.write()
    tally.write()
    assert _total("heavy") == _total("light") == (0, {"queue_full": 1}, 0, 0)


def _fails_the_second_time() -> Any:
    answers = iter(['{"queue_full": 1}'])

    def dumps(_: Any) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise OperationalError from None

    return dumps


@pytest.mark.django_db(transaction=True)
def test_a_timer_writes_them_from_a_thread_whose_connection_it_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tally.Pending()
    own.count("light", "refused queue_full", 2)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(own._write_on_time).result()
        assert thread.submit(lambda: connection.connection).result() is None
    own.forget()
    assert _total() == (0, {"queue_full": 2}, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_write_one_minute_lose_none(other: Elsewhere) -> None:
    first, second = tally.Pending(), tally.Pending()
    for pending in (first, second):
        for name in ("light", "heavy"):
            pending.count(name, "refused queue_full", 2)
    first.write()
    first.count("light", "refused queue_full", 1)
    begun_behind(first.write, other, second.write).result(20)
    for pending in (first, second):
        pending.forget()
    assert (_total()[1], _total("heavy")[1]) == ({"queue_full": 5}, {"queue_full": 4})


@pytest.mark.parametrize(("age", "kept"), [(995, True), (1_005, False)])
def test_minutes_are_kept_as_long_as_jobs(settings: Any, age: float, kept: bool) -> None:
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 1_000
    ClassMinute.objects.create(cost_class="light", minute=Now() - timedelta(seconds=age))
    sweeps.prune()
    assert ClassMinute.objects.exists() is kept


def test_a_first_start_is_held_against_what_was_estimated_at_the_admission(node: WorkerNode) -> None:
    estimates = (Now() - timedelta(seconds=30), Now() + timedelta(seconds=30), None)
    late = [job_rows.a_running_job(node, estimated_start_at=at)[1].late_seconds for at in estimates]
    assert [seconds and round(seconds) for seconds in late] == [30, -30, None]
