"""How often the API asks the database: one question for the key, and as few as can be for the rest."""

from types import SimpleNamespace

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs import kept, lifecycle
from jobs.control import effective
from jobs.lifecycle import Outcome
from jobs.states import State
from tests.in_process_api import InProcessApi, a_probe_node, claim_probe

pytestmark = pytest.mark.django_db

KEY = 1
HEAVY = {"seconds": 0, "cost_class": "heavy"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


class Clock:
    """What is kept for a second grows old only when a test says so."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_an_accepted_job_costs_one_round_trip_and_what_operators_have_set_one_each_half_second(
    api: InProcessApi, clock: Clock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    a_probe_node()
    with django_assert_num_queries(KEY + 1 + 1):
        api.submit()
    clock.now += effective.KNOWN_FOR_SECONDS
    with django_assert_num_queries(KEY + 1):
        api.submit()
    clock.now += 0.01
    with django_assert_num_queries(KEY + 1 + 1):
        api.submit()


def test_a_refusal_costs_one_round_trip_and_the_drain_once_a_second(
    api: InProcessApi, clock: Clock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(8):
        api.submit(params=HEAVY)
    with django_assert_num_queries(KEY + 1 + 1):
        assert api.post("probe.sleep", HEAVY).status_code == 503
    clock.now += effective.KNOWN_FOR_SECONDS
    with django_assert_num_queries(KEY + 1):
        assert api.post("probe.sleep", HEAVY).status_code == 503
    clock.now += effective.KNOWN_FOR_SECONDS
    with django_assert_num_queries(KEY + 1 + 1):  # what operators have set
        assert api.post("probe.sleep", HEAVY).status_code == 503
    clock.now += 0.01
    with django_assert_num_queries(KEY + 1 + 1):  # the drain
        assert api.post("probe.sleep", HEAVY).status_code == 503


@pytest.mark.parametrize(
    "body",
    [
        {"type": "nothing"},
        {},
        {"type": "probe.sleep", "params": {}},
        {"type": "probe.sleep", "params": {"seconds": 0}, "priority": 101},
    ],
)
def test_a_job_that_cannot_be_costs_nothing_but_the_key(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries, body: object
) -> None:
    with django_assert_num_queries(KEY):
        assert api.json(body).status_code == 422


def test_a_stranger_costs_one_look_for_the_key_and_without_one_none(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(KEY):
        api.get("/classes", headers={"Authorization": "Bearer nobody"})
    with django_assert_num_queries(0):
        api.get("/classes", headers={"Authorization": ""})


def test_reading_a_job_that_has_ended_costs_one_query(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    node = a_probe_node()
    job_id = api.submit()
    claimed = claim_probe(node)
    with django_assert_num_queries(KEY + 1):
        assert api.job(job_id)["state"] == "running"
    lifecycle.settle(claimed.job_id, claimed.attempt, Outcome(State.SUCCEEDED, result=1, run_seconds=0.1))
    with django_assert_num_queries(KEY + 1):
        assert api.job(job_id)["state"] == "succeeded"


def test_classes_are_asked_once_a_second_however_often_they_are_read(
    api: InProcessApi, clock: Clock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(KEY + 2 * 3):
        api.get("/classes")
    clock.now += 1.0
    with django_assert_num_queries(KEY):
        api.get("/classes")
    clock.now += 0.01
    with django_assert_num_queries(KEY + 2 * 3):
        api.get("/classes")


def test_types_are_known_without_asking_but_for_limits_that_operators_have_set(
    api: InProcessApi, clock: Clock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(KEY + 1):
        api.get("/types")
    with django_assert_num_queries(KEY):
        api.get("/types")
