"""An operator pauses a class of a running stack, and resumes it: within a second in every process."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.waiting import eventually

WITHIN_SECONDS = 1.0
JOBS = 30


@pytest.fixture
def paused_no_longer(api: Api) -> Iterator[None]:
    """The stack is left as it was found."""
    yield
    api.http.patch("/classes/light", json={"paused": False, "draining": False})


@pytest.mark.usefixtures("paused_no_longer")
def test_a_pause_stops_starts_within_a_second_and_a_resume_begins_them_at_once(
    stack: Stack, api: Api, diary: Diary
) -> None:
    jobs = [api.submit("tests.note", diary.params(f"n{number}", seconds=0.1)) for number in range(JOBS)]
    eventually(lambda: len(diary.began()) >= 3)
    assert api.http.patch("/classes/light", json={"paused": True}).status_code == 200
    paused_at = datetime.now(UTC)  # of the machine whose clock the database has too
    # As long as this one takes somewhere else, nothing begins here.
    other = api.submit("tests.note", diary.params("other", seconds=1.5, cost_class="heavy"))
    assert api.ended(other)["state"] == "succeeded"
    waiting = [job_id for job_id in jobs if api.job(job_id)["state"] == "queued"]
    assert {api.job(job_id)["waiting"]["held_by"] for job_id in waiting} == {"paused"}
    resumed_at = datetime.now(UTC)
    assert api.http.patch("/classes/light", json={"paused": False}).json()["paused"] is False
    assert {api.ended(job_id)["state"] for job_id in jobs} == {"succeeded"}

    started = sorted(row.started_at for row in records.jobs(stack.database_url) if row.id in jobs and row.started_at)
    before, after = (
        [at for at in started if at < resumed_at],
        [at for at in started if at >= resumed_at],
    )
    late = (max(before) - paused_at).total_seconds()
    print(f"{len(before)} began before, the last one {late:.3f} s after the pause; {len(after)} after the resume")
    assert len(after) == len(waiting) >= JOBS / 3, "the pause hit what was still to come"
    assert late < WITHIN_SECONDS
    assert (after[0] - resumed_at).total_seconds() < WITHIN_SECONDS


@pytest.mark.usefixtures("paused_no_longer")
def test_a_drain_refuses_in_every_web_process_once_it_was_answered(stack: Stack, api: Api, diary: Diary) -> None:
    assert api.http.patch("/classes/light", json={"draining": True}).status_code == 200
    answers = [api.post("tests.note", diary.params(f"r{number}")) for number in range(20)]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(503, "class_draining")}
    assert diary.began() == []
