"""An operator pauses a class of a running stack, and resumes it: within a second in every process (P13, P14)."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.waiting import eventually

WITHIN_SECONDS = 1.0
PROCESSES, JOBS = 2, 6


@pytest.fixture
def paused_no_longer(api: Api) -> Iterator[None]:
    """The stack is left as it was found."""
    yield
    api.http.patch("/classes/light", json={"paused": False, "draining": False, "max_wait_seconds": None})


@pytest.mark.usefixtures("paused_no_longer")
def test_nothing_begins_once_a_pause_was_answered_and_a_resume_begins_it_at_once(
    stack: Stack, api: Api, diary: Diary
) -> None:
    assert api.http.patch("/classes/light", json={"max_wait_seconds": 120}).status_code == 200
    held = [api.submit("tests.note", diary.params(f"h{number}", held=True)) for number in range(PROCESSES)]
    eventually(lambda: len(diary.began()) == PROCESSES)  # so nobody is free
    jobs = [api.submit("tests.note", diary.params(f"n{number}")) for number in range(JOBS)]
    assert api.http.patch("/classes/light", json={"paused": True}).status_code == 200
    diary.open_gate()
    assert {api.ended(job_id)["state"] for job_id in held} == {"succeeded"}
    # As long as this one takes somewhere else, nothing begins here, though every process is free.
    other = api.submit("tests.note", diary.params("other", seconds=1.5, cost_class="heavy"))
    assert api.ended(other)["state"] == "succeeded"
    assert {api.job(job_id)["state"] for job_id in jobs} == {"queued"}
    assert {api.job(job_id)["waiting"]["held_by"] for job_id in jobs} == {"paused"}
    resumed_at = datetime.now(UTC)  # of the machine whose clock the database has too
    assert api.http.patch("/classes/light", json={"paused": False}).json()["paused"] is False
    answered_at = datetime.now(UTC)
    assert {api.ended(job_id)["state"] for job_id in jobs} == {"succeeded"}

    started = sorted(row.started_at for row in records.jobs(stack.database_url) if row.id in jobs and row.started_at)
    print(f"the first began {(started[0] - answered_at).total_seconds():.3f} s after the resume was answered")
    assert len(started) == JOBS
    assert started[0] >= resumed_at
    assert (started[0] - answered_at).total_seconds() < WITHIN_SECONDS


@pytest.mark.usefixtures("paused_no_longer")
def test_every_web_process_knows_an_overridden_limit_within_a_second(api: Api, diary: Diary) -> None:
    assert api.http.patch("/classes/light", json={"max_wait_seconds": 3}).status_code == 200
    answered_at = time.monotonic()
    refused = 0
    while refused < 20:  # in a row, by whichever process takes them
        asked_at = time.monotonic()
        answer = api.post("tests.note", diary.params(f"m{asked_at}"), max_wait_seconds=4)
        refused = refused + 1 if answer.status_code == 422 else 0
        assert answer.status_code == 422 or asked_at - answered_at <= WITHIN_SECONDS
    assert answer.json()["code"] == "limit_out_of_range"


@pytest.mark.usefixtures("paused_no_longer")
def test_a_drain_refuses_in_every_web_process_once_it_was_answered(stack: Stack, api: Api, diary: Diary) -> None:
    assert api.http.patch("/classes/light", json={"draining": True}).status_code == 200
    answers = [api.post("tests.note", diary.params(f"r{number}")) for number in range(20)]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(503, "class_draining")}
    assert diary.began() == []
