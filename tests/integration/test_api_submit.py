"""POST /jobs: what an accepted submit answers, and which fields it takes."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from jobs import classes
from jobs.models import Job
from tests.in_process_api import InProcessApi, problem

pytestmark = pytest.mark.django_db

LIGHT = classes.get("light")


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def test_an_accepted_job_is_answered_with_itself_and_where_to_ask(api: InProcessApi) -> None:
    response = api.post("probe.sleep", {"seconds": 1.5})
    job = response.json()
    assert response.status_code == 202
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Location"] == job["links"]["self"] == f"/api/v1/jobs/{job['id']}"
    assert response.headers["Retry-After"] == "1"
    assert api.job(job["id"]) == job


def test_an_accepted_job_is_a_row_of_its_client(api: InProcessApi) -> None:
    response = api.post("probe.sleep", {"seconds": 1.5}, labels={"team": "ops"})
    row = Job.objects.get(pk=response.json()["id"])
    assert (row.client, row.type, row.cost_class, row.state) == (api.client, "probe.sleep", "light", "queued")
    assert (row.params, row.labels) == ({"seconds": 1.5}, {"team": "ops"})
    assert row.request_id == response.headers["X-Request-Id"]
    assert row.admitted_bound == LIGHT.max_waiting


def test_a_job_id_is_a_version_7_uuid_and_ids_grow_with_time(api: InProcessApi) -> None:
    ids = [UUID(api.submit()) for _ in range(3)]
    assert {job_id.version for job_id in ids} == {7}
    assert [job_id.int >> 80 for job_id in ids] == sorted(job_id.int >> 80 for job_id in ids)


def test_what_a_submit_leaves_out_is_the_classs_default(api: InProcessApi) -> None:
    job = api.json({"type": "probe.sleep", "params": {"seconds": 0}}).json()
    assert (job["timeout_seconds"], job["labels"], job["max_attempts"]) == (LIGHT.timeout_seconds, {}, 1)
    assert _seconds_between(job["accepted_at"], job["start_by"]) == LIGHT.max_wait_seconds


def test_a_null_limit_is_one_left_out(api: InProcessApi) -> None:
    job = api.post("probe.sleep", {"seconds": 0}, timeout_seconds=None, max_wait_seconds=None).json()
    assert job["timeout_seconds"] == LIGHT.timeout_seconds


def test_a_limit_that_is_asked_for_is_kept(api: InProcessApi) -> None:
    job = api.post("probe.sleep", {"seconds": 0}, timeout_seconds=12.5, max_wait_seconds=2).json()
    assert job["timeout_seconds"] == 12.5
    assert _seconds_between(job["accepted_at"], job["start_by"]) == 2


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


@pytest.mark.parametrize(("n", "cost_class"), [(1_000_000, "light"), (1_000_001, "heavy")])
def test_the_class_may_depend_on_the_params(api: InProcessApi, n: int, cost_class: str) -> None:
    assert api.post("numbers.sum_squares", {"n": n}).json()["cost_class"] == cost_class


@pytest.mark.parametrize(
    "labels",
    [{}, {f"label {number}": "" for number in range(16)}, {"n" * 63: "v" * 255}, {"ü": "日本"}],
)
def test_labels_within_their_bounds_are_kept(api: InProcessApi, labels: dict[str, str]) -> None:
    assert api.job(api.submit(labels=labels))["labels"] == labels


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=UTF-8"]
)
def test_json_by_any_of_its_spellings_is_taken(api: InProcessApi, content_type: str) -> None:
    body = b'{"type": "probe.sleep", "params": {"seconds": 0}}'
    assert api.raw(body, content_type).status_code == 202


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*", "nonsense"])
def test_whatever_a_caller_accepts_it_gets_json(api: InProcessApi, accept: str) -> None:
    response = api.json({"type": "probe.sleep", "params": {"seconds": 0}}, headers={"Accept": accept})
    assert response.status_code == 202
    assert response.headers["Content-Type"] == "application/json"
    problem(api.json({}, headers={"Accept": accept}), 422, "invalid_request")


ABSENT_FIELDS: dict[str, Any] = {
    "idempotency_key": "abc",
    "max_attempts": 3,
    "cost_class": "light",
}


@pytest.mark.parametrize("field", ABSENT_FIELDS)
def test_a_field_that_does_not_exist_yet_is_an_unknown_field(api: InProcessApi, field: str) -> None:
    """To take it and do nothing would be a promise that nobody keeps."""
    members = problem(api.post("probe.sleep", {"seconds": 0}, **{field: ABSENT_FIELDS[field]}), 422, "invalid_request")
    assert [error["loc"] for error in members["errors"]] == [[field]]
    assert not Job.objects.exists()


@pytest.mark.parametrize("prefer", ["wait=5", "respond-async"])
def test_a_preference_is_ignored_and_not_said_to_be_applied(api: InProcessApi, prefer: str) -> None:
    response = api.json({"type": "probe.sleep", "params": {"seconds": 0}}, headers={"Prefer": prefer})
    assert response.status_code == 202
    assert "Preference-Applied" not in response.headers
