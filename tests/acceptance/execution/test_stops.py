"""A worker that is told to stop: running jobs get the grace, then go back to the queue without blame (P22, P23)."""

import os
import signal
import threading
from pathlib import Path

import psycopg

from stack.failures import StackError
from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.execution.conftest import attempts_of
from tests.api_client import Api
from tests.waiting import eventually

TERMS, FULL_TERMS = 20, 200


def test_a_handler_sees_that_its_worker_stops_and_may_finish(stack: Stack, api: Api, word: Path) -> None:
    job_id = api.submit("tests.behave", {"how": "wait to be stopped", "note": str(word)})
    eventually(word.exists)
    stack.stop_program("worker-heavy")
    stack.start_program("worker-heavy")
    job = api.ended(job_id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert word.read_text() == "was told"


def test_what_does_not_finish_in_the_grace_is_given_back_without_blame(stack: Stack, api: Api, diary: Diary) -> None:
    running = api.submit("tests.note", diary.params("long", cost_class="heavy", held=True))
    diary.wait_until_began("long")
    stack.stop_program("worker-heavy")
    job = api.job(running)
    assert (job["state"], job["attempt"], job["failures"]) == ("queued", 1, 0)
    assert [row[1] for row in attempts_of(stack, running)] == ["released"]
    diary.open_gate()
    stack.start_program("worker-heavy")
    again = api.ended(running, 30)
    assert (again["state"], again["attempt"], again["failures"]) == ("succeeded", 2, 0)


def test_a_worker_terminated_again_and_again_loses_nothing_and_repeats_nothing_that_ended(
    stack: Stack, api: Api, diary: Diary, full: bool
) -> None:
    accepted: list[str] = []
    done = threading.Event()

    def submit() -> None:
        with Api(stack.url, stack.key) as caller:
            while not done.is_set():
                name = f"t{len(accepted)}"
                answer = caller.post("tests.note", diary.params(name, seconds=0.05, cost_class="heavy"))
                assert answer.status_code == 202, answer.text
                eventually(lambda: caller.cost_class("heavy")["waiting"] < 10 or done.is_set(), 60)
                accepted.append(str(answer.json()["id"]))
                done.wait(0.2)  # no more than can run between two restarts

    caller = threading.Thread(target=submit)
    caller.start()
    try:
        for _ in range(FULL_TERMS if full else TERMS):
            _terminate_and_see_it_work_again(stack, diary)
    finally:
        done.set()
        caller.join()

    stack.wait_ready(60)
    states = [api.ended(job_id, 120)["state"] for job_id in accepted]
    # One that waited too long for a worker expired, and never ran.
    assert set(states) <= {"succeeded", "expired"}, "none lost, none stuck"
    assert states.count("succeeded") >= TERMS
    assert len(diary.began()) == _attempts(stack, accepted), "starts equal recorded attempts"
    assert len(diary.ended()) == states.count("succeeded"), "nothing that had ended was run again"


def _terminate_and_see_it_work_again(stack: Stack, diary: Diary) -> None:
    pid = eventually(lambda: _pid(stack), 30) or 0
    ended_before = len(diary.ended())
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: _runs_anew(stack, pid), 30)
    eventually(lambda: len(diary.ended()) > ended_before, 60)


def _runs_anew(stack: Stack, old: int) -> bool:
    return _pid(stack) not in {None, old}


def _pid(stack: Stack) -> int | None:
    """None between two starts."""
    try:
        return stack.pid("worker-heavy")
    except StackError:
        return None


def _attempts(stack: Stack, jobs: list[str]) -> int:
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("SELECT count(*) FROM jobs_attempt WHERE job_id = ANY(%s::uuid[])", [jobs]).fetchone()
    assert row is not None
    return int(row[0])
