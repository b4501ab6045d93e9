"""Prefer: wait on POST and GET: what is said at first, what at last, and who waits (P31, P38)."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.utils import OperationalError

from jobs import lifecycle, notify, telemetry
from jobs.api.waiting import WAITED, Hold, asked_seconds
from jobs.lifecycle import Outcome
from jobs.models import Job
from jobs.notify import Waiters
from jobs.states import State
from tests import job_rows
from tests.in_process_api import BASE, InProcessApi, a_probe_node, claim_probe, problem

pytestmark = pytest.mark.django_db

JOB = {"type": "probe.sleep", "params": {"seconds": 0}}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def waiters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiters]:
    """Without the thread that listens: what it does is tried elsewhere."""
    mine = Waiters(most=3, most_per_client=2)
    monkeypatch.setattr(mine, "_listen", lambda: None)
    monkeypatch.setattr(notify, "WAITERS", mine)
    yield mine


def _post(api: InProcessApi, prefer: str = "wait=10", **headers: str) -> Any:
    return api.json(JOB, headers={"Prefer": prefer, **headers})


def _again(api: InProcessApi, method: str, path: str, response: Any) -> Any:
    """As the server asks once more."""
    return api.send(method, path, headers={"Prefer": "wait=10"}, **{WAITED: response.hold})


def _ended(job_id: str, result: object = None) -> None:
    node = a_probe_node()
    claimed = claim_probe(node)
    assert str(claimed.job_id) == job_id
    lifecycle.settle(claimed.job_id, claimed.attempt, Outcome(State.SUCCEEDED, result=result, run_seconds=0.1))


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("wait=10", 10),
        ("respond-async, wait=10", 10),
        ('WAIT = "7" ; x=y', 7),
        ("wait=61", 60),
        ("wait=999999999", 60),
        ("wait=0", 0),
        ("respond-async", 0),
        ("", 0),
        ("wait", 0),
        ("wait=soon", 0),
        ("wait=-1", 0),
        ("wait=1.5", 0),
        ("wait=\u0661", 0),
        ("wait=99999999999999999999", 60),
        ("wait=" + "9" * 5000, 60),
        ('foo="a,wait=3"', 0),
        ('foo="a, b", wait=3', 3),
    ],
)
def test_how_long_a_caller_would_wait(prefer: str, seconds: int) -> None:
    assert asked_seconds({"Prefer": prefer}) == seconds


def test_a_submit_that_waits_is_answered_with_the_result(api: InProcessApi, waiters: Waiters) -> None:
    first = _post(api)
    assert (first.status_code, first.json()["state"]) == (202, "queued")
    assert "Preference-Applied" not in first.headers, "it is what is said if nothing better comes"
    assert isinstance(first.hold, Hold)
    assert (first.hold.seconds, first.hold.cancel_if_left, len(waiters)) == (10, True, 1)
    _ended(first.json()["id"], {"n": 1})
    last = _again(api, "POST", f"{BASE}/jobs", first)
    assert (last.status_code, last.json()["result"]) == (200, {"n": 1})
    assert last.headers["Preference-Applied"] == "wait=10"
    assert "Prefer" in last.headers["Vary"]
    assert last.headers["Location"] == first.headers["Location"]
    assert "Retry-After" not in last.headers
    assert Job.objects.count() == 1
    assert not hasattr(last, "hold")
    first.hold.release()
    assert len(waiters) == 0


def test_a_submit_whose_job_has_not_ended_in_time_is_accepted(api: InProcessApi) -> None:
    first = _post(api)
    last = _again(api, "POST", f"{BASE}/jobs", first)
    assert (last.status_code, last.json()["state"]) == (202, "queued")
    assert (last.headers["Preference-Applied"], last.headers["Retry-After"]) == ("wait=10", "1")


def test_a_get_that_waits_holds_until_the_end_and_is_then_as_any_other(api: InProcessApi) -> None:
    job_id = api.submit()
    path = f"{BASE}/jobs/{job_id}"
    first = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"})
    assert first.hold.cancel_if_left is False
    _ended(job_id)
    last = _again(api, "GET", path, first)
    assert (last.status_code, last.json()["state"]) == (200, "succeeded")
    assert last.headers["Preference-Applied"] == "wait=10"
    assert "ETag" in last.headers
    plain = api.get(f"/jobs/{job_id}")
    assert plain.json() == last.json()
    assert "Preference-Applied" not in plain.headers
    assert "Prefer" not in plain.headers["Vary"]


def test_a_long_poll_with_an_etag_is_told_of_a_change(api: InProcessApi) -> None:
    job_id = api.submit()
    headers = {"Prefer": "wait=10", "If-None-Match": api.get(f"/jobs/{job_id}").headers["ETag"]}
    first = api.get(f"/jobs/{job_id}", headers=headers)
    assert (first.status_code, first.hold.seconds) == (304, 10)
    _ended(job_id)
    assert api.send("GET", f"{BASE}/jobs/{job_id}", headers=headers, **{WAITED: first.hold}).status_code == 200


def test_who_asks_for_a_job_that_has_ended_waits_for_nothing(api: InProcessApi) -> None:
    job_id = api.submit()
    _ended(job_id)
    answer = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"})
    assert not hasattr(answer, "hold")
    assert answer.headers["Preference-Applied"] == "wait=10"


def test_a_job_that_ends_between_the_look_and_the_wait_is_told_at_once(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = api.submit()
    mark = notify.mark

    def meanwhile(job: Any, seconds: float) -> bool:
        _ended(job_id)
        return mark(job, seconds)

    monkeypatch.setattr(notify, "mark", meanwhile)
    first = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"})
    assert first.json()["state"] == "queued"
    assert first.hold.ended.done()


def test_an_end_that_the_listener_tells_first_is_told_as_well(
    api: InProcessApi, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an other caller's mark: the notice comes before this one has looked for itself."""
    job_id = api.submit()
    mark = notify.mark

    def meanwhile(job: Any, seconds: float) -> bool:
        _ended(job_id)
        waiters._ended([job])
        return mark(job, seconds)

    monkeypatch.setattr(notify, "mark", meanwhile)
    first = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"})
    assert first.status_code == 200
    assert first.hold.ended.done()


def test_who_could_not_begin_to_wait_takes_nobodys_place(
    api: InProcessApi, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(job: Any, seconds: float) -> bool:
        raise OperationalError("gone")

    job_id = api.submit()
    monkeypatch.setattr(notify, "mark", lost)
    assert api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"}).status_code == 503
    assert len(waiters) == 0


def test_past_the_caps_a_caller_is_answered_at_once(api: InProcessApi, waiters: Waiters) -> None:
    """Two of a client, three of all."""
    assert [hasattr(_post(api), "hold") for _ in range(3)] == [True, True, False]
    other = InProcessApi()
    assert [hasattr(_post(other), "hold") for _ in range(2)] == [True, False]
    assert len(waiters) == 3


def test_the_same_request_again_waits_for_the_same_job(api: InProcessApi) -> None:
    first = _post(api, **{"Idempotency-Key": "k"})
    assert first.hold.cancel_if_left is False, "its caller can come back"
    again = _post(api, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.hold.subject.id == first.hold.subject.id
    _ended(first.json()["id"])
    last = _again(api, "POST", f"{BASE}/jobs", again)
    assert (last.status_code, last.headers["Idempotency-Replayed"]) == (200, "true")
    assert (
        _post(api, **{"Idempotency-Key": "k"}).status_code,
        _post(api, "respond-async", **{"Idempotency-Key": "k"}).status_code,
    ) == (200, 202)


def test_a_key_that_may_not_read_is_told_no_result(api: InProcessApi) -> None:
    submitter = InProcessApi("jobs:submit")
    first = _post(submitter)
    _ended(first.json()["id"], {"secret": 1})
    last = _again(submitter, "POST", f"{BASE}/jobs", first)
    assert (last.status_code, last.json()["state"], last.json()["result"]) == (200, "succeeded", None)


# ── Callers who leave ────────────────────────────────────────────────────────────────────────────────────────────────


def _orphaned() -> float:
    return float(telemetry.ORPHANED._value.get())


@pytest.mark.django_db(transaction=True)  # as its own thread would have a connection of its own
def test_the_queued_job_of_a_caller_that_left_is_cancelled(api: InProcessApi) -> None:
    first, before = _post(api), _orphaned()
    first.hold.caller_left()
    assert api.job(first.json()["id"])["state"] == "cancelled"
    assert _orphaned() == before


@pytest.mark.django_db(transaction=True)  # as its own thread would have a connection of its own
def test_a_running_one_goes_on_and_is_counted(api: InProcessApi) -> None:
    first, before = _post(api), _orphaned()
    claim_probe(a_probe_node())
    first.hold.caller_left()
    job = api.job(first.json()["id"])
    assert (job["state"], job["cancel_requested_at"]) == ("running", None)
    assert _orphaned() == before + 1


@pytest.mark.parametrize("how", ["with a key", "a get"])
def test_whoever_can_come_back_may_leave(api: InProcessApi, how: str) -> None:
    if how == "a get":
        job_id = api.submit()
        first = api.get(f"/jobs/{job_id}", headers={"Prefer": "wait=10"})
    else:
        first = _post(api, **{"Idempotency-Key": "k"})
    first.hold.caller_left()
    assert api.job(first.json()["id"])["state"] == "queued"


# ── Jobs that wait for jobs ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_may_not_wait_for_another_of_its_class(api: InProcessApi) -> None:
    running = api.submit()
    claim_probe(a_probe_node())
    within = {"X-Weighbridge-Job": running}
    refused = problem(_post(api, **within), 422, "would_deadlock")
    assert refused == {"cost_class": "light"}
    assert Job.objects.count() == 1, "nothing was stored"
    other = api.submit()
    problem(api.get(f"/jobs/{other}", headers={"Prefer": "wait=5", **within}), 422, "would_deadlock")
    assert api.json(JOB, headers=within).status_code == 202, "it may submit one"


def test_nor_may_it_wait_for_one_that_it_submitted_before_under_a_key(api: InProcessApi) -> None:
    within, node = {"X-Weighbridge-Job": api.submit()}, a_probe_node()
    claim_probe(node)
    first = api.json(JOB, headers={"Idempotency-Key": "k", **within}).json()["id"]
    problem(_post(api, **{"Idempotency-Key": "k"}, **within), 422, "would_deadlock")
    job_rows.succeed(claim_probe(node))
    assert _post(api, **{"Idempotency-Key": "k"}, **within).status_code == 200, "there is nothing to wait for"
    assert api.get(f"/jobs/{first}", headers={"Prefer": "wait=5", **within}).json()["state"] == "succeeded"


@pytest.mark.parametrize("given", ["no id", "018f0000-0000-7000-8000-000000000000", "\u00e4"])
def test_what_names_no_running_job_of_the_class_deadlocks_nothing(api: InProcessApi, given: str) -> None:
    assert hasattr(_post(api, **{"X-Weighbridge-Job": given}), "hold")


def test_another_clients_job_is_not_told_apart_from_none(api: InProcessApi) -> None:
    running = InProcessApi().submit()
    claim_probe(a_probe_node())
    assert hasattr(_post(api, **{"X-Weighbridge-Job": running}), "hold")


def test_a_queued_job_waits_for_nobody(api: InProcessApi) -> None:
    job_id = api.submit()
    assert job_rows.read(api.client.jobs.get(pk=job_id).pk).state == "queued"
    assert hasattr(_post(api, **{"X-Weighbridge-Job": job_id}), "hold")
