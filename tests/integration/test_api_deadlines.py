"""POST /jobs with deadlines: three ways to say one, the earliest wins, a past one is 422 (P8, P9)."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jobs.door.forms import LONGEST_DEADLINE_SECONDS
from jobs.models import Job
from tests.in_process_api import BASE, InProcessApi, a_probe_node, claim_probe, problem

pytestmark = pytest.mark.django_db

OK: dict[str, Any] = {"type": "probe.sleep", "params": {"seconds": 0}}
HEADER = "X-Deadline-Ms"


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _submit(api: InProcessApi, remaining_ms: str | None = None, **fields: Any) -> Any:
    return api.json({**OK, **fields}, headers={} if remaining_ms is None else {HEADER: remaining_ms})


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def _remaining(response: Any) -> float:
    """From acceptance to the deadline that was answered, in seconds."""
    assert response.status_code == 202, response.content
    job = response.json()
    apart: timedelta = datetime.fromisoformat(job["deadline_at"]) - datetime.fromisoformat(job["accepted_at"])
    return apart.total_seconds()


# ── Three ways to say it ─────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_deadline_the_answer_has_none(api: InProcessApi) -> None:
    assert _submit(api).json()["deadline_at"] is None
    assert _submit(api, deadline_seconds=None, deadline_at=None).json()["deadline_at"] is None


@pytest.mark.parametrize("seconds", [90, 90.25, LONGEST_DEADLINE_SECONDS])
def test_seconds_are_answered_as_an_instant(api: InProcessApi, seconds: float) -> None:
    response = _submit(api, deadline_seconds=seconds)
    assert seconds - 5 < _remaining(response) <= seconds
    assert api.job(response.json()["id"])["deadline_at"] == response.json()["deadline_at"]


@pytest.mark.parametrize(
    "given",
    [
        "2100-06-01T12:00:00Z",
        "2100-05-31T12:01:00-23:59",
        "2100-06-01T14:30:00+02:30",
        "2100-06-01T07:00:00.000-05:00",
        "2100-06-01t12:00:00z",
    ],
)
def test_an_instant_of_any_offset_is_answered_in_utc(api: InProcessApi, given: str) -> None:
    assert _submit(api, deadline_at=given).json()["deadline_at"] == "2100-06-01T12:00:00.000Z"


@pytest.mark.parametrize("given", ["90000", "090000"])
def test_the_header_says_the_milliseconds_that_remain(api: InProcessApi, given: str) -> None:
    assert 85 < _remaining(_submit(api, given)) <= 90


def test_a_remaining_time_beyond_the_longest_deadline_is_that_one(api: InProcessApi) -> None:
    """It says what the caller has; no job needs all of it."""
    remaining = _remaining(_submit(api, "9" * 13))
    assert LONGEST_DEADLINE_SECONDS - 5 < remaining <= LONGEST_DEADLINE_SECONDS


@pytest.mark.parametrize(("relative", "absolute", "header"), [(50, 70, 90), (90, 50, 70), (70, 90, 50)])
def test_of_three_deadlines_the_earliest_wins(
    api: InProcessApi, relative: float, absolute: float, header: float
) -> None:
    response = _submit(api, str(header * 1000), deadline_seconds=relative, deadline_at=_in(absolute))
    assert 45 < _remaining(response) <= 50


@pytest.mark.parametrize(("seconds", "is_the_deadline"), [(5, True), (60, False)])
def test_the_latest_start_is_no_later_than_the_deadline(
    api: InProcessApi, seconds: float, is_the_deadline: bool
) -> None:
    job = _submit(api, deadline_seconds=seconds).json()
    assert (job["start_by"] == job["deadline_at"]) is is_the_deadline
    assert job["start_by"] <= job["deadline_at"]


def test_an_attempt_gets_what_remains_to_the_deadline(api: InProcessApi) -> None:
    node = a_probe_node()
    assert _submit(api, "4000").status_code == 202
    claimed = claim_probe(node)
    assert claimed.limit_seconds == claimed.remaining_seconds
    assert 0 < claimed.limit_seconds <= 4


# ── What is none ─────────────────────────────────────────────────────────────────────────────────────────────────────

WRONG_INSTANTS: list[Any] = [
    4_102_444_800,
    4_102_444_800.5,
    True,
    "",
    "tomorrow",
    "2100-06-01",
    "2100-06-01T12:00:00",
    "2100-13-01T12:00:00Z",
    "2100-06-01T25:00:00Z",
    ["2100-06-01T12:00:00Z"],
    *("4102444800", "4102444800.5", "4102444800000"),
]


@pytest.mark.parametrize("value", WRONG_INSTANTS)
def test_an_instant_must_be_a_date_and_time_with_an_offset(api: InProcessApi, value: Any) -> None:
    members = problem(_submit(api, deadline_at=value), 422, "invalid_request")
    assert {error["loc"][0] for error in members["errors"]} == {"deadline_at"}
    assert not Job.objects.exists()


@pytest.mark.parametrize("value", ["90", True, [90], LONGEST_DEADLINE_SECONDS + 1, 1e300])
def test_seconds_must_be_a_number_within_a_year(api: InProcessApi, value: Any) -> None:
    members = problem(_submit(api, deadline_seconds=value), 422, "invalid_request")
    assert {error["loc"][0] for error in members["errors"]} == {"deadline_seconds"}
    assert not Job.objects.exists()


@pytest.mark.parametrize("given", ["", "soon", "-1", "+5", "1.5", "1e3", "5 000", "0x10", "5,6", "1" * 14])
def test_a_malformed_header_is_a_bad_request(api: InProcessApi, given: str) -> None:
    """And is not passed over: the caller would think that its time is known here."""
    assert problem(_submit(api, given), 400, "bad_request") == {}
    assert not Job.objects.exists()


# ── What cannot be met ───────────────────────────────────────────────────────────────────────────────────────────────

PAST = [
    {"deadline_seconds": 0},
    {"deadline_seconds": -0.5},
    {"deadline_at": "2000-01-01T00:00:00Z"},
    {"remaining_ms": "0"},
    {"remaining_ms": "0", "deadline_seconds": 60, "deadline_at": "2100-01-01T00:00:00Z"},
    {"remaining_ms": "60000", "deadline_seconds": 60, "deadline_at": "2000-01-01T00:00:00+14:00"},
]


@pytest.mark.parametrize("past", PAST)
def test_a_deadline_that_has_passed_is_refused_for_good(api: InProcessApi, past: dict[str, Any]) -> None:
    assert problem(_submit(api, **past), 422, "deadline_infeasible", retryable=False) == {}
    assert not Job.objects.exists()


def test_it_is_refused_for_good_also_when_its_class_is_full(api: InProcessApi) -> None:
    """P7: the deadline is looked at before the room."""
    params = {"seconds": 0, "cost_class": "heavy"}
    for _ in range(8):
        api.submit(params=params)
    problem(_submit(api, params=params), 503, "queue_full", retryable=True)
    problem(_submit(api, params=params, deadline_seconds=0), 422, "deadline_infeasible")


def test_what_can_never_be_a_job_is_told_before_its_deadline(api: InProcessApi) -> None:
    problem(_submit(api, "0", params={}), 422, "invalid_params")
    problem(_submit(api, "0", type="nothing"), 422, "unknown_type")


# ── Numbers at the edge of what a date can be ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "edge",
    [
        {"deadline_seconds": -1e12},
        {"deadline_seconds": -1e300},
        {"deadline_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))).isoformat()},
    ],
    ids=str,
)
def test_a_deadline_long_before_all_time_has_just_passed(api: InProcessApi, edge: dict[str, Any]) -> None:
    assert _submit(api, **edge).status_code == 422
    assert not Job.objects.exists()


def test_a_deadline_after_all_time_leaves_a_job_that_can_be_read_or_none(api: InProcessApi) -> None:
    """One row that cannot be read would fail every list that it is on."""
    response = _submit(api, deadline_at="9999-12-31T23:59:59-14:00")
    assert len(Job.objects.all()) == (response.status_code == 202)
    assert response.status_code in {202, 422}


@pytest.mark.parametrize("given", ["", "soon", "-1"])
@pytest.mark.parametrize("what", ["jobs", "batches"])
def test_a_remaining_time_that_is_none_is_refused_also_with_a_key_that_is_known(
    api: InProcessApi, what: str, given: str
) -> None:
    """No deadline makes it another request, but this is none."""
    job = b'{"type": "probe.sleep", "params": {"seconds": 0}}'
    body = job if what == "jobs" else b'{"jobs": {"a": %s}}' % job
    key = {"Idempotency-Key": "once"}
    first = api.send("POST", f"{BASE}/{what}", body, headers=key)
    assert first.status_code == 202, first.content
    problem(api.send("POST", f"{BASE}/{what}", body, headers={**key, HEADER: given}), 400, "bad_request")
    again = api.send("POST", f"{BASE}/{what}", body, headers={**key, HEADER: "5000"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])
