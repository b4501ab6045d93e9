"""A request that the server asks twice is told of once: one line, one sample, from its first turn to its answer."""

import time
from typing import Any

import pytest
from django.test import Client

from jobs import telemetry
from jobs.api.requests import ARRIVED, EARLIER, Record
from jobs.api.waiting import WAITED
from jobs.files.spool import Spool
from tests.in_process_api import BASE, InProcessApi

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HELD_SECONDS = 1.0


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Each line that tells of a request."""
    events: list[Any] = [line.msg for line in caplog.records]
    return [event for event in events if isinstance(event, dict) and event["event"].startswith("request")]


def _samples(route: str, method: str, status: int) -> tuple[float, float]:
    """How many, and their sum in seconds."""
    child = telemetry.HTTP.labels(route, method, status)
    samples = {sample.name: sample.value for sample in child._child_samples() if sample.name != "_bucket"}
    return samples["_count"], samples["_sum"]


def _submit(api: InProcessApi, **environ: Any) -> Any:
    headers = {"Prefer": "wait=10", "X-Request-Id": "mine", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    body = b'{"type": "probe.sleep", "params": {"seconds": 0}}'
    return api.send("POST", f"{BASE}/jobs", body, headers=headers, **environ)


def test_a_submit_that_is_held_is_told_with_its_last_answer_and_its_whole_time(
    api: InProcessApi, caplog: pytest.LogCaptureFixture
) -> None:
    route = ("api/v1/jobs", "POST", 202)
    count, seconds = _samples(*route)
    first = _submit(api, **{EARLIER: None})
    assert isinstance(first.record, Record)
    assert (first.status_code, _told(caplog)) == (202, [])
    time.sleep(HELD_SECONDS)  # the wait itself
    second = _submit(api, **{EARLIER: first.record, WAITED: first.hold})
    first.hold.release()
    assert (_told(caplog), _samples(*route)) == ([], (count, seconds))
    second.record.answered()
    (told,) = _told(caplog)
    assert (told["event"], told["status"], told["request_id"], told["trace_id"]) == ("request", 202, "mine", TRACE)
    assert told["milliseconds"] >= HELD_SECONDS * 1e3
    assert _samples(*route)[0] == count + 1
    assert _samples(*route)[1] >= seconds + HELD_SECONDS


def test_of_a_caller_that_left_there_is_a_line_and_no_answer_is_counted(
    api: InProcessApi, caplog: pytest.LogCaptureFixture
) -> None:
    before = _samples("api/v1/jobs", "POST", 202)
    first = _submit(api, **{EARLIER: None})
    first.hold.release()
    first.record.left()
    (told,) = _told(caplog)
    assert (told["event"], told["request_id"], "status" in told) == ("request_left", "mine", False)
    assert _samples("api/v1/jobs", "POST", 202) == before


def test_an_upload_is_told_once_its_bytes_are_there(api: InProcessApi, caplog: pytest.LogCaptureFixture) -> None:
    def upload(**environ: Any) -> Any:
        headers = {"Authorization": f"Bearer {api.key}"}
        return Client().generic("POST", f"{BASE}/uploads", b"", headers=headers, **environ)

    first = upload(**{EARLIER: None, ARRIVED: None})  # which no caller is sent
    assert isinstance(first.sink, Spool)
    first.sink.write(b"file")
    second = upload(**{EARLIER: first.record, ARRIVED: first.sink})
    first.sink.close()
    assert _told(caplog) == []
    second.record.answered()
    assert [(told["status"], told["route"]) for told in _told(caplog)] == [(201, "api/v1/uploads")]


def test_where_the_server_does_not_tell_each_request_is_told_at_once(
    api: InProcessApi, caplog: pytest.LogCaptureFixture
) -> None:
    held = _submit(api)
    held.hold.release()
    assert [told["status"] for told in _told(caplog)] == [202]
    assert not hasattr(held, "record")
