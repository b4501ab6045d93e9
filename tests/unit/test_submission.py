"""What a job says of itself is the same however it came in, and on its whole way to its row."""

from dataclasses import fields, replace

import pytest

from jobs.api import submits
from jobs.api.submits import Origin
from jobs.door.asking import AskedJob
from jobs.door.submission import Said, Submission, said_of
from jobs.models import ApiClient, Job, OutboxEntry
from jobs.submit import calls

WITHIN = {
    "labels": {"team": "ops"},
    "flow": "tenant-7",
    "priority": -5,
    "timeout_seconds": 3.0,
    "max_wait_seconds": 4.0,
    "deadline_seconds": 5.0,
}


@pytest.mark.parametrize("name", [field.name for field in fields(Said)])
def test_all_that_a_job_says_of_itself_has_its_column(name: str) -> None:
    for model in (OutboxEntry, Job):
        assert model._meta.get_field(name).name == name
    assert {name} <= {field.name for field in fields(AskedJob)} & {field.name for field in fields(Submission)}


def test_a_body_and_a_call_that_say_the_same_ask_for_the_same_job() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = submits.asked_job(
        {"type": "numbers.sum", "params": {"n": 1}, **WITHIN}, Origin(ApiClient(name="shop"), "", trace), None, None
    )
    called = calls.read("numbers.sum", {"n": 1}, {"client": "shop", "traceparent": trace, **WITHIN})  # type: ignore[typeddict-item]
    assert sent == called
    assert said_of(sent) == {
        "type": "numbers.sum",
        "params": {"n": 1},
        "labels": {"team": "ops"},
        "flow": "tenant-7",
        "priority": -5,
        "request_id": "",
        "traceparent": trace,
    }


def test_what_is_taken_on_says_all_of_it() -> None:
    """So that nothing is lost between an entry and the job that comes of it."""
    told = AskedJob(type="a", params={"n": 1}, labels={"a": "b"}, flow="f", priority=7, request_id="r", traceparent="t")
    again = AskedJob(**said_of(told))
    assert again == told
    assert replace(again, priority=8) != told
