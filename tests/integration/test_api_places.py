"""A queued job says where it stands, when it would start, and what holds it; one that does not wait says nothing, and costs nothing (P11, P12)."""

from datetime import datetime
from typing import Any

import pytest
from django.db.utils import OperationalError
from pydantic import BaseModel
from pytest_django import DjangoAssertNumQueries

from jobs import capacity, registry, waits
from jobs.models import Job, LimitKey, WorkerNode
from jobs.registry import JobType, NoParams
from tests import job_rows
from tests.in_process_api import InProcessApi, a_probe_node

pytestmark = pytest.mark.django_db

TYPE = job_rows.TYPE
SECONDS = 2.0


class Numbered(BaseModel):
    n: int


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whose jobs each costs two seconds."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    registry.register(JobType(TYPE, print, NoParams, "light", cost=SECONDS))


def accepted(api: InProcessApi, **fields: Any) -> dict[str, Any]:
    response = api.json({"type": TYPE, **fields})
    assert response.status_code == 202, response.content
    return dict(response.json())


def place(api: InProcessApi, job: dict[str, Any]) -> Any:
    return api.job(job["id"])["waiting"]


def in_seconds(instant: str | None) -> float:
    """From about now; a test takes well under a second of the job's time."""
    assert instant is not None
    told = datetime.fromisoformat(instant)
    return (told - datetime.now(told.tzinfo)).total_seconds()


def test_a_job_is_told_its_place_at_once_and_whenever_it_asks(api: InProcessApi) -> None:
    jobs = [accepted(api) for _ in range(3)]
    assert [job["waiting"]["position"] for job in jobs] == [1, 2, 3]
    assert [place(api, job)["position"] for job in jobs] == [1, 2, 3]
    assert jobs[0]["waiting"]["held_by"] is None


def test_one_that_has_begun_has_none(api: InProcessApi) -> None:
    node = job_rows.a_node()
    job = accepted(api)
    job_rows.claim(node)
    assert place(api, job) is None
    assert "waiting" not in api.get("/jobs").json()["jobs"][0]


def test_a_priority_brings_its_job_before_its_clients_others(api: InProcessApi) -> None:
    low, high = accepted(api, priority=-50), accepted(api, priority=50)
    assert (place(api, high)["position"], place(api, low)["position"]) == (1, 2)


def test_places_are_the_order_of_the_claims_whatever_the_clients_flows_and_priorities() -> None:
    """Told before, then claimed one by one. No two cost the same: of flows that tie one may go before the other."""
    registry._types[TYPE] = JobType(TYPE, print, Numbered, "light", cost=lambda params: 0.1 + params.n * 0.0137)
    node = job_rows.a_node(processes=40)
    clients, jobs = [InProcessApi() for _ in range(3)], []
    for number in range(30):
        api = clients[number * 7 % 3]
        jobs.append(
            (api, accepted(api, params={"n": number}, priority=number * 37 % 201 - 100, flow="ab"[number * 5 % 2]))
        )
    told = {job["id"]: place(api, job)["position"] for api, job in jobs}
    claimed = [job_rows.claim(node) for _ in jobs]
    assert [told[str(one.job_id)] for one in claimed if one] == list(range(1, 31))


def test_the_start_is_estimated_by_what_goes_before(api: InProcessApi, node: WorkerNode) -> None:
    """Two slots run two; of three that wait the last needs three departures, of two seconds on two slots."""
    for _ in range(2):
        accepted(api)
        job_rows.claim(node)
    *_, last = [accepted(api) for _ in range(3)]
    told = place(api, last)
    assert told["position"] == 3
    assert in_seconds(told["estimated_start_at"]) == pytest.approx(3.0, abs=1)
    sure = capacity.start_seconds(3, 2, SECONDS)
    assert in_seconds(told["estimated_start_p95_at"]) == pytest.approx(sure, abs=1)
    assert sure > 5


def test_with_a_free_process_it_starts_now(api: InProcessApi, node: WorkerNode) -> None:
    told = accepted(api)["waiting"]
    assert in_seconds(told["estimated_start_at"]) == pytest.approx(0, abs=1)
    assert told["estimated_start_at"] == told["estimated_start_p95_at"]


def test_without_a_worker_or_a_measure_no_start_is_told(api: InProcessApi) -> None:
    assert accepted(api)["waiting"]["estimated_start_at"] is None
    node = a_probe_node()
    assert node.processes == 1
    for _ in range(2):
        api.submit()
    told = api.job(api.submit())["waiting"]
    assert (told["estimated_start_at"], told["estimated_start_p95_at"]) == (None, None)


def test_what_holds_a_job_is_told(api: InProcessApi, node: WorkerNode) -> None:
    registry._types[TYPE] = JobType(TYPE, print, NoParams, "light", cost=SECONDS, limit_keys=("free", "licence"))
    LimitKey.objects.create(pattern="lic*", maximum=0)
    told = accepted(api)["waiting"]
    assert told == {
        "position": 1,
        "estimated_start_at": None,
        "estimated_start_p95_at": None,
        "held_by": "limit:licence",
    }


def test_a_clients_own_maximum_is_told_as_such(api: InProcessApi, node: WorkerNode) -> None:
    api.client.max_running = 0
    api.client.save()
    assert accepted(api)["waiting"]["held_by"] == "client_limit"


def test_a_backoff_is_told_with_its_end(api: InProcessApi, node: WorkerNode) -> None:
    job = accepted(api)
    Job.objects.update(available_at=job_rows.later(60))
    told = place(api, job)
    assert told["held_by"] == "retry_backoff"
    assert in_seconds(told["estimated_start_at"]) == pytest.approx(60, abs=2)


def test_a_place_that_changes_changes_no_etag(api: InProcessApi) -> None:
    first, second = accepted(api), accepted(api)
    tag = api.get(f"/jobs/{second['id']}").headers["ETag"]
    api.cancel(first["id"])
    assert place(api, second)["position"] == 1
    assert api.get(f"/jobs/{second['id']}", headers={"If-None-Match": tag}).status_code == 304


def test_a_database_that_is_lost_after_the_admission_loses_the_place_only(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(job: Job) -> None:
        raise OperationalError("gone")

    job = accepted(api)
    monkeypatch.setattr(waits, "_look", lost)
    assert api.cancel(job["id"]).status_code == 200
    again = accepted(api, labels={"a": "b"})
    assert again["waiting"]["position"] == 1


def test_who_may_not_read_is_not_told() -> None:
    assert accepted(InProcessApi("jobs:submit"))["waiting"] is None


def test_a_place_costs_one_query_of_a_job_that_waits(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    job = accepted(api)
    with django_assert_num_queries(1 + 2 + 1):  # the key, the job and whether it has expired, its place
        assert place(api, job)["position"] == 1
