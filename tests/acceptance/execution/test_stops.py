"""A worker that is told to stop: running jobs get the grace, then go back to the queue without blame (P22, P23)."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from stack.failures import StackError
from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.execution.conftest import attempts_of
from tests.acceptance.times import Times
from tests.api_client import Api
from tests.history.nemesis import Away, Terminate, TerminateAll, afflicted
from tests.history.recorder import History
from tests.history.server_nemesis import POSTGRES, Freeze
from tests.processes import lives
from tests.waiting import eventually
from workers.keeper import SIGN_OFF_SECONDS

TERMS, FULL_TERMS = 20, 200
WAITING = 4


def test_a_handler_sees_that_its_worker_stops_and_may_finish(
    stack: Stack, api: Api, history: History, word: Path
) -> None:
    job_id = api.submit("tests.behave", {"how": "wait to be stopped", "note": str(word)})
    eventually(word.exists)
    with afflicted(history, stack, Away("worker-heavy")):
        pass  # it is started again at once
    job = api.ended(job_id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert word.read_text() == "was told"


def test_a_term_to_every_process_of_a_worker_is_a_stop_like_any_other(
    stack: Stack, api: Api, history: History, word: Path, times: Times
) -> None:
    job_id = api.submit("tests.behave", {"how": "wait to be stopped", "note": str(word)})
    eventually(word.exists)
    with afflicted(history, stack, TerminateAll("worker-heavy", times.stop_grace)):
        pass
    job = api.ended(job_id)
    assert (job["state"], job["attempt"]) == ("succeeded", 1)


def test_a_child_takes_no_notice_of_a_term_and_what_its_handler_started_does(
    stack: Stack, api: Api, diary: Diary
) -> None:
    running = api.submit("tests.note", diary.params("running", cost_class="heavy", held=True))
    diary.wait_until_began("running")
    (body,) = diary.begins()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(body.pid, number)
    diary.open_gate()
    assert api.ended(running)["state"] == "succeeded"
    for number in (signal.SIGTERM, signal.SIGINT):  # between two jobs too
        os.kill(body.pid, number)
    assert api.ended(api.submit("tests.behave", {"how": "end what it started"}))["state"] == "succeeded"
    assert lives(body.pid)


def test_what_does_not_finish_in_the_grace_is_given_back_without_blame(stack: Stack, api: Api, diary: Diary) -> None:
    running = api.submit("tests.note", diary.params("long", cost_class="heavy", held=True))
    diary.wait_until_began("long")
    with afflicted(diary.history, stack, Away("worker-heavy")):
        job = api.job(running)
        assert (job["state"], job["attempt"], job["failures"]) == ("queued", 1, 0)
        assert [row[1] for row in attempts_of(stack, running)] == ["released"]
        diary.open_gate()
    again = api.ended(running, 30)
    assert (again["state"], again["attempt"], again["failures"]) == ("succeeded", 2, 0)


def test_a_worker_ends_in_time_also_while_the_database_does_not_answer(
    stack: Stack, api: Api, diary: Diary, times: Times
) -> None:
    """What it cannot give back then, the reaper does later."""
    running = api.submit("tests.note", diary.params("frozen", cost_class="heavy", held=True), timeout_seconds=120)
    diary.wait_until_began("frozen")
    with afflicted(diary.history, stack, Freeze(POSTGRES)):
        asked = time.monotonic()
        with afflicted(diary.history, stack, TerminateOnly("worker-heavy", times.stop_grace)):
            assert time.monotonic() - asked <= times.stop_grace + SIGN_OFF_SECONDS + 3
    diary.open_gate()
    assert api.ended(running, 60)["state"] == "succeeded"


@pytest.mark.timeout(3600)
def test_a_worker_terminated_again_and_again_loses_nothing_and_repeats_nothing_that_ended(
    stack: Stack, api: Api, diary: Diary, times: Times, full: bool
) -> None:
    accepted: list[str] = []
    done = threading.Event()

    def submit() -> None:
        while not done.is_set():
            name = f"t{len(accepted)}"
            accepted.append(api.submit("tests.note", diary.params(name, seconds=0.05, cost_class="heavy")))
            # On a busy machine a restart takes ten seconds and a worker is ended again after its first job. None of so few
            # then waits for as long as it may.
            eventually(lambda: api.cost_class("heavy")["waiting"] < WAITING or done.is_set(), 60)
            done.wait(0.2)

    caller = threading.Thread(target=submit)
    caller.start()
    try:
        for _ in range(FULL_TERMS if full else TERMS):
            _terminate_and_see_it_work_again(stack, diary, times)
    finally:
        done.set()
        caller.join()

    stack.wait_ready(60)
    states = [api.ended(job_id, 120)["state"] for job_id in accepted]
    assert set(states) == {"succeeded"}, "none lost, none stuck, none too late"
    assert len(states) >= TERMS
    assert len(diary.began()) == _attempts(stack, accepted), "starts equal recorded attempts"
    assert len(diary.ended()) == len(states), "nothing that had ended was run again"


@dataclass(frozen=True)
class TerminateOnly(Terminate):
    """Over when it has ended, since the next one cannot be there yet."""

    def recovered(self, stack: Stack) -> None: ...


@dataclass(frozen=True)
class TerminateUntilItWorks(Terminate):
    """Over when the next worker has ended a job, however long the rest of its node takes to be there."""

    diary: Diary

    def recovered(self, stack: Stack) -> None:
        ended_before = len(self.diary.ended())
        eventually(lambda: len(self.diary.ended()) > ended_before, 60)


def _terminate_and_see_it_work_again(stack: Stack, diary: Diary, times: Times) -> None:
    asked = time.monotonic()
    with afflicted(diary.history, stack, TerminateUntilItWorks("worker-heavy", times.stop_grace, diary)) as ended:
        eventually(lambda: _runs_anew(stack, ended[0]), 30)
        assert time.monotonic() - asked < 30


def _runs_anew(stack: Stack, old: int) -> bool:
    try:
        return stack.pid("worker-heavy") != old
    except StackError:  # between two starts
        return False


def _attempts(stack: Stack, jobs: list[str]) -> int:
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("SELECT count(*) FROM jobs_attempt WHERE job_id = ANY(%s::uuid[])", [jobs]).fetchone()
    assert row is not None
    return int(row[0])
