"""503: a class that is full, a type nobody runs, a door that gives no turn."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import classes, queries
from jobs.models import Job
from tests.in_process_api import InProcessApi, a_probe_node, claim_probe, problem
from tests.job_rows import a_finished_job
from tests.second_connections import Elsewhere, class_locked, waits_for_a_lock
from tests.waiting import eventually

HEAVY = classes.get("heavy")
LIGHT = classes.get("light")
PARAMS = {"seconds": 0, "cost_class": "heavy"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _fill(api: InProcessApi, places: int) -> list[str]:
    return [api.submit(params=PARAMS) for _ in range(places)]


@pytest.mark.django_db
def test_a_full_class_says_so_with_everything_a_caller_can_use(api: InProcessApi) -> None:
    node = a_probe_node("heavy", processes=2)
    _fill(api, 2 + HEAVY.max_waiting)
    claim_probe(node)
    claim_probe(node)
    response = api.post("probe.sleep", PARAMS)
    members = problem(response, 503, "queue_full", retryable=True)
    assert members == {
        "retry_after_seconds": HEAVY.retry_after_seconds,
        "cost_class": "heavy",
        "waiting": HEAVY.max_waiting,
        "max_waiting": HEAVY.max_waiting,
        "running": 2,
        "slots": 2,
        "room": 0,
        "backlog_seconds": 0,  # nothing is known of what a probe takes
        "max_backlog_seconds": HEAVY.backlog_seconds,
    }
    assert response.headers["Retry-After"] == str(HEAVY.retry_after_seconds)


@pytest.mark.django_db
def test_a_refused_job_leaves_no_row(api: InProcessApi) -> None:
    _fill(api, HEAVY.max_waiting)
    api.post("probe.sleep", PARAMS)
    assert Job.objects.count() == HEAVY.max_waiting


@pytest.mark.django_db
def test_one_full_class_leaves_the_other_open(api: InProcessApi) -> None:
    _fill(api, HEAVY.max_waiting)
    problem(api.post("probe.sleep", PARAMS), 503, "queue_full", retryable=True)
    assert api.post("probe.sleep", {"seconds": 0}).status_code == 202


@pytest.mark.django_db
def test_with_no_worker_alive_the_answer_is_the_cap_and_says_why(api: InProcessApi) -> None:
    _fill(api, HEAVY.max_waiting)
    response = api.post("probe.sleep", PARAMS)
    members = problem(response, 503, "queue_full", retryable=True)
    assert (members["slots"], members["retry_after_seconds"], response.headers["Retry-After"]) == (0, 300, "300")
    assert "no worker of it is alive" in response.json()["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize(("departures", "seconds"), [(4, HEAVY.retry_after_seconds), (5, 24), (10, 12), (60, 2)])
def test_retry_after_follows_the_measured_drain(api: InProcessApi, departures: int, seconds: int) -> None:
    """Of 8 waiting, 2 have to leave before a fifth of the room is free; drain is departures in a minute."""
    for _ in range(departures):
        a_finished_job(cost_class="heavy", accepted_at=Now() - timedelta(seconds=61))
    node = a_probe_node("heavy")
    _fill(api, 1 + HEAVY.max_waiting)
    claim_probe(node)
    response = api.post("probe.sleep", PARAMS)
    members = problem(response, 503, "queue_full", retryable=True)
    assert members["waiting"] == 8
    assert (members["retry_after_seconds"], response.headers["Retry-After"]) == (seconds, str(seconds))


@pytest.mark.django_db
def test_a_type_that_live_workers_do_not_know_is_unavailable(api: InProcessApi) -> None:
    a_probe_node(processes=3)
    response = api.post("probe.spin", {"seconds": 0})
    members = problem(response, 503, "type_unavailable", retryable=True)
    assert members == {
        "retry_after_seconds": LIGHT.retry_after_seconds,
        "cost_class": "light",
        "waiting": 0,
        "max_waiting": LIGHT.max_waiting,
        "running": 0,
        "slots": 3,
        "room": 3 + LIGHT.max_waiting,
        "backlog_seconds": 0,
        "max_backlog_seconds": LIGHT.backlog_seconds,
    }
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_one_live_worker_that_knows_the_type_is_enough(api: InProcessApi) -> None:
    a_probe_node(types=("probe.spin",))
    a_probe_node()
    assert api.post("probe.spin", {"seconds": 0}).status_code == 202


@pytest.mark.django_db
def test_with_no_live_worker_a_job_of_any_type_is_held(api: InProcessApi) -> None:
    assert api.post("probe.spin", {"seconds": 0}).status_code == 202


@pytest.mark.django_db
def test_a_full_class_is_full_before_a_type_is_missed(api: InProcessApi) -> None:
    """Both would refuse; the plain count comes first."""
    a_probe_node("heavy")
    _fill(api, 1 + HEAVY.max_waiting)
    problem(api.post("probe.spin", PARAMS), 503, "queue_full", retryable=True)


@pytest.mark.django_db
@pytest.mark.parametrize("body", [{"type": "probe.sleep", "params": {}}, {"type": "nothing"}, {}])
def test_a_job_that_can_never_be_is_422_even_when_its_class_is_full(api: InProcessApi, body: Any) -> None:
    _fill(api, HEAVY.max_waiting)
    assert api.json(body).status_code == 422


@pytest.mark.django_db(transaction=True)
def test_a_door_that_gives_no_turn_within_a_second_is_unavailable(api: InProcessApi, other: Elsewhere) -> None:
    with class_locked("light", by=other):
        response = api.post("probe.sleep", {"seconds": 0})
    members = problem(response, 503, "unavailable", retryable=True)
    assert members == {"retry_after_seconds": 1, "cost_class": "light"}
    assert response.headers["Retry-After"] == "1"
    assert api.post("probe.sleep", {"seconds": 0}).status_code == 202
    assert queries.room("light").waiting == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asked", ["submit", "cancel"])
def test_when_the_database_is_lost_in_the_middle_it_says_that_the_outcome_is_not_known(
    api: InProcessApi, other: Elsewhere, asked: str
) -> None:
    """Here it was lost before the commit; who asked could not tell that from a loss after it."""
    job_id = api.submit()
    asking: dict[str, Callable[[], Any]] = {
        "submit": lambda: api.post("probe.sleep", {"seconds": 0}),
        "cancel": lambda: api.cancel(job_id),
    }
    pid = other.backend_pid()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:light', 0))")
        Job.objects.select_for_update().get(pk=job_id)
        answer = other.start(asking[asked])
        eventually(lambda: waits_for_a_lock(pid), every_seconds=0.01)
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        lost = answer.result(10)
    assert problem(lost, 503, "unavailable", retryable=True) == {"outcome_unknown": True}
    assert Job.objects.get().state == "queued"
