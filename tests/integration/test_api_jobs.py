"""GET and DELETE /jobs/{id}: the job as it is, through all its states."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs import leases, lifecycle
from jobs.lifecycle import Claim, Outcome
from jobs.models import Job
from jobs.states import State
from tests import job_rows
from tests.in_process_api import InProcessApi, a_probe_node, claim_probe, problem

pytestmark = pytest.mark.django_db

KEYS = {
    "priority",
    "flow",
    "waiting",
    "id",
    "type",
    "cost_class",
    "state",
    "accepted_at",
    "started_at",
    "finished_at",
    "start_by",
    "deadline_at",
    "timeout_seconds",
    "attempt",
    "failures",
    "max_attempts",
    "cancel_requested_at",
    "progress",
    "result",
    "result_expired",
    "error",
    "timings",
    "labels",
    "artifacts",
    "links",
}
TIMINGS = {"wait_seconds", "run_seconds", "cpu_seconds", "peak_rss_bytes"}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _running(api: InProcessApi) -> tuple[str, Claim]:
    node = a_probe_node()
    job_id = api.submit()
    return job_id, claim_probe(node)


def _settle(claimed: Claim, state: State = State.SUCCEEDED, **outcome: Any) -> None:
    lifecycle.settle(claimed.job_id, claimed.attempt, Outcome(state, run_seconds=0.5, cpu_seconds=0.25, **outcome))


def _overdue(job_id: str) -> None:
    Job.objects.filter(pk=job_id).update(start_by=Now() - timedelta(seconds=1))


def _instants(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name.endswith("_at") or name == "start_by"}


def test_a_job_has_exactly_its_members_in_every_state(api: InProcessApi) -> None:
    job_id = api.submit()
    seen = [api.post("probe.sleep", {"seconds": 0}).json(), api.job(job_id)]
    claimed = claim_probe(a_probe_node())
    seen.append(api.job(job_id))
    _settle(claimed, result={"a": 1})
    seen.append(api.job(job_id))
    for job in seen:
        assert job.keys() == KEYS
        assert job["timings"].keys() == TIMINGS
        assert job["links"].keys() == {"self", "batch"}
    assert [job["state"] for job in seen] == ["queued", "queued", "running", "succeeded"]


def test_every_instant_is_in_utc_and_says_so(api: InProcessApi) -> None:
    node = a_probe_node()
    job_id = api.submit(deadline_seconds=60)
    claimed = claim_probe(node)
    api.cancel(job_id)
    _settle(claimed)
    instants = _instants(api.job(job_id))
    assert set(instants) == {
        *("accepted_at", "started_at", "finished_at", "start_by", "deadline_at", "cancel_requested_at")
    }
    assert all(INSTANT.fullmatch(value) for value in instants.values()), instants


def test_a_queued_job_has_neither_begun_nor_ended(api: InProcessApi) -> None:
    job = api.job(api.submit())
    assert (job["state"], job["attempt"], job["started_at"], job["finished_at"]) == ("queued", 0, None, None)
    assert (job["result"], job["error"], job["progress"], job["cancel_requested_at"]) == (None, None, None, None)
    assert set(job["timings"].values()) == {None}


def test_a_running_job_tells_its_wait_and_progress(api: InProcessApi) -> None:
    job_id, claimed = _running(api)
    leases.report_progress(connection, claimed.job_id, claimed.attempt, 0.4, "pass 4 of 10")
    job = api.job(job_id)
    assert (job["state"], job["attempt"], job["finished_at"]) == ("running", 1, None)
    assert job["progress"] == {"fraction": 0.4, "note": "pass 4 of 10"}
    assert job["timings"]["wait_seconds"] >= 0
    assert job["timings"]["run_seconds"] is None


def test_a_job_that_succeeded_has_its_result_and_times(api: InProcessApi) -> None:
    job_id, claimed = _running(api)
    _settle(claimed, result={"tour": [1, 2], "note": "ü"}, peak_rss_bytes=4096)
    job = api.job(job_id)
    assert (job["state"], job["result"], job["error"], job["failures"]) == (
        "succeeded",
        {"tour": [1, 2], "note": "ü"},
        None,
        0,
    )
    timings = job["timings"]
    assert (timings["run_seconds"], timings["cpu_seconds"], timings["peak_rss_bytes"]) == (0.5, 0.25, 4096)


def test_a_job_that_failed_is_a_good_answer_and_hides_the_traceback(api: InProcessApi) -> None:
    job_id, claimed = _running(api)
    _settle(claimed, State.FAILED, error_code="handler_error", error_message="ValueError", detail="xyzzy")
    response = api.get(f"/jobs/{job_id}")
    job = response.json()
    assert response.status_code == 200
    assert (job["state"], job["failures"]) == ("failed", 1)
    assert job["error"] == {
        "code": "handler_error",
        "message": "ValueError",
        "retryable": False,
        "stopped_by": None,
        "details": None,
    }
    assert b"xyzzy" not in response.content


def test_a_failure_tells_what_its_author_meant_callers_to_read(api: InProcessApi) -> None:
    job_id, claimed = _running(api)
    told = {"error_code": "no_route", "error_message": "There is none.", "error_details": {"stops": [3, 7]}}
    _settle(claimed, State.FAILED, **told, retryable=True, stopped_by="attempts")
    assert api.job(job_id)["error"] == {
        "code": "no_route",
        "message": "There is none.",
        "retryable": True,
        "stopped_by": "attempts",
        "details": {"stops": [3, 7]},
    }


def test_a_job_in_backoff_is_queued_again_and_tells_no_error(api: InProcessApi) -> None:
    """Its failures show; what it will end with is not known yet. Its cancel is a queued job's."""
    job_id, claimed = _running(api)
    leases.report_progress(connection, claimed.job_id, claimed.attempt, 0.4, "pass 4 of 10")
    lifecycle.retry(claimed.job_id, claimed.attempt, Outcome(State.FAILED, error_code="handler_error"), 60)
    job = api.job(job_id)
    assert (job["state"], job["attempt"], job["failures"], job["start_by"]) == ("queued", 1, 1, None)
    assert (job["error"], job["progress"], job["result"]) == (None, None, None)
    response = api.cancel(job_id)
    assert (response.status_code, response.json()["state"]) == (200, "cancelled")


def test_polling_makes_sense_until_the_end(api: InProcessApi) -> None:
    job_id = api.submit()
    assert api.get(f"/jobs/{job_id}").headers["Retry-After"] == "1"
    claimed = claim_probe(a_probe_node())
    assert api.get(f"/jobs/{job_id}").headers["Retry-After"] == "1"
    _settle(claimed)
    assert "Retry-After" not in api.get(f"/jobs/{job_id}").headers


@pytest.mark.parametrize(("seconds_late", "state"), [(1, "expired"), (-60, "queued")])
def test_a_read_that_meets_an_overdue_job_expires_it_first(api: InProcessApi, seconds_late: int, state: str) -> None:
    job_id = api.submit()
    Job.objects.update(start_by=Now() - timedelta(seconds=seconds_late))
    told = api.job(job_id)
    stored = Job.objects.get()
    assert told["state"] == stored.state == state
    assert (told["error"] or {}).get("code") == ("max_wait" if state == "expired" else None)
    assert (told["finished_at"] is None) is (state == "queued")


def test_a_queued_job_is_cancelled_at_once(api: InProcessApi) -> None:
    job_id = api.submit()
    response = api.cancel(job_id)
    job = response.json()
    assert response.status_code == 200
    assert (job["state"], job["attempt"], job["error"]) == ("cancelled", 0, None)
    ended, asked = (datetime.fromisoformat(job[name]) for name in ("finished_at", "cancel_requested_at"))
    assert abs(ended - asked) < timedelta(seconds=1), "both are of one statement"
    assert api.job(job_id) == job


def test_a_cancelled_job_is_cancelled_again_with_the_same_answer(api: InProcessApi) -> None:
    job_id = api.submit()
    first, second = api.cancel(job_id), api.cancel(job_id)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()


def test_the_cancel_of_a_running_job_is_accepted_and_keeps_its_first_instant(api: InProcessApi) -> None:
    job_id, _ = _running(api)
    first, second = api.cancel(job_id), api.cancel(job_id)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["state"] == "running"
    assert first.json()["cancel_requested_at"] is not None
    assert first.json() == second.json()


def test_after_an_accepted_cancel_the_end_is_cancelled_and_the_result_dropped(api: InProcessApi) -> None:
    job_id, claimed = _running(api)
    api.cancel(job_id)
    _settle(claimed, result={"a": 1})
    again = api.cancel(job_id)
    assert again.status_code == 200
    assert (again.json()["state"], again.json()["result"]) == ("cancelled", None)


@pytest.mark.parametrize("state", ["succeeded", "failed", "expired"])
def test_a_job_that_has_ended_cannot_be_cancelled_and_comes_with_the_answer(api: InProcessApi, state: str) -> None:
    if state == "expired":
        job_id = api.submit()
        _overdue(job_id)
    else:
        job_id, claimed = _running(api)
        _settle(claimed, State(state), error_code="" if state == "succeeded" else "handler_error")
    members = problem(api.cancel(job_id), 409, "not_cancellable")
    assert members == {"job": api.job(job_id)}
    assert members["job"]["state"] == state


def test_a_cancel_frees_the_place_at_once(api: InProcessApi) -> None:
    ids = [api.submit(params={"seconds": 0, "cost_class": "heavy"}) for _ in range(8)]
    full = {"type": "probe.sleep", "params": {"seconds": 0, "cost_class": "heavy"}}
    assert api.json(full).status_code == 503
    api.cancel(ids[3])
    assert api.json(full).status_code == 202
    assert api.json(full).status_code == 503


# ── Asking again ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_as_it_was_is_304_and_one_that_moved_is_not(api: InProcessApi) -> None:
    node, job_id = a_probe_node(), api.submit()
    first = api.get(f"/jobs/{job_id}")
    again = api.get(f"/jobs/{job_id}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert "Content-Type" not in again.headers
    assert again.headers["Retry-After"] == first.headers["Retry-After"]
    assert again.headers["X-Request-Id"]
    problem(api.get(f"/jobs/{job_id}", headers={"If-Match": '"another"'}), 412, "precondition_failed")
    old = {"If-Unmodified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}
    assert api.get(f"/jobs/{job_id}", headers=old).status_code == 200, "a job has no date to compare"
    tags = {first.headers["ETag"]}
    claimed = claim_probe(node)
    for move in (
        lambda: None,
        lambda: leases.report_progress(connection, claimed.job_id, 1, 0.5, "half"),
        lambda: lifecycle.cancel(claimed.job_id),
        lambda: job_rows.succeed(claimed),
    ):
        move()
        moved = api.get(f"/jobs/{job_id}", headers={"If-None-Match": ", ".join(tags)})
        assert moved.status_code == 200
        tags.add(moved.headers["ETag"])
    assert len(tags) == 5
    assert "Retry-After" not in moved.headers


def test_the_times_of_a_job_are_told_as_far_as_they_are_known(api: InProcessApi) -> None:
    node, job_id = a_probe_node(), api.submit()
    assert "Server-Timing" not in api.get(f"/jobs/{job_id}").headers
    claimed = claim_probe(node)
    assert re.fullmatch(r"queue;dur=\d+\.\d", api.get(f"/jobs/{job_id}").headers["Server-Timing"])
    job_rows.succeed(claimed)
    assert re.fullmatch(r"queue;dur=\d+\.\d, run;dur=100\.0", api.get(f"/jobs/{job_id}").headers["Server-Timing"])


@pytest.mark.parametrize("scopes", [("jobs:cancel",), ("jobs:cancel", "jobs:read")])
def test_a_key_that_may_not_read_is_told_no_results_by_cancelling(scopes: tuple[str, ...]) -> None:
    api = InProcessApi(*scopes)
    job = job_rows.a_finished_job(client=api.client, result={"secret": 1})
    told = problem(api.cancel(str(job.pk)), 409, "not_cancellable")["job"]
    assert told["result"] == ({"secret": 1} if "jobs:read" in scopes else None)


def test_a_cancel_of_another_state_than_it_names_is_412_and_cancels_nothing(api: InProcessApi) -> None:
    job_id = api.submit()
    address = f"/api/v1/jobs/{job_id}"
    tag = api.get(f"/jobs/{job_id}").headers["ETag"]
    problem(api.send("DELETE", address, headers={"If-Match": '"another"'}), 412, "precondition_failed")
    assert Job.objects.get().state == "queued"
    assert api.send("DELETE", address, headers={"If-Match": tag}).json()["state"] == "cancelled"
