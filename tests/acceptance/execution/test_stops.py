"""A worker that is told to stop: running jobs get the grace, then go back to the queue without blame (P22, P23)."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
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
CLASSES = ("light", "heavy")
WAITING = 4
WORKER_IS_THERE_SECONDS = 10.0  # as long as light jobs may wait by default


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
def test_workers_terminated_again_and_again_lose_nothing_and_repeat_nothing_that_ended(
    stack: Stack, api: Api, diary: Diary, times: Times, full: bool
) -> None:
    """Both of them side by side, each with its own callers."""
    accepted: dict[str, list[str]] = {name: [] for name in CLASSES}
    done = threading.Event()
    with ThreadPoolExecutor(2 * len(CLASSES)) as threads:
        try:
            callers = [threads.submit(_submit_until, done, api, diary, name, accepted[name]) for name in CLASSES]
            each = (FULL_TERMS if full else TERMS) // len(CLASSES)
            list(threads.map(lambda name: _terminate_often(stack, diary, times, name, each), CLASSES))
        finally:
            done.set()
    for caller in callers:
        caller.result()

    stack.wait_ready(60)
    jobs = [job_id for of_class in accepted.values() for job_id in of_class]
    states = [api.ended(job_id, 120)["state"] for job_id in jobs]
    assert set(states) == {"succeeded"}, "none lost, none stuck"
    assert _longest_wait_beside_a_worker(stack, jobs) <= WORKER_IS_THERE_SECONDS, "they wait for restarts only"
    assert len(states) >= TERMS
    assert len(diary.began()) == _attempts(stack, jobs), "starts equal recorded attempts"
    assert len(diary.ended()) == len(states), "nothing that had ended was run again"


def _submit_until(done: threading.Event, api: Api, diary: Diary, name: str, accepted: list[str]) -> None:
    while not done.is_set():
        params = diary.params(f"{name}{len(accepted)}", seconds=0.05, cost_class=name)
        accepted.append(api.submit("tests.note", params))
        # On a busy machine a restart takes ten seconds and a worker is ended again after its first job. None of so few
        # then waits for as long as it may.
        eventually(lambda: api.cost_class(name)["waiting"] < WAITING or done.is_set(), 60)
        done.wait(0.2)


def _terminate_often(stack: Stack, diary: Diary, times: Times, name: str, often: int) -> None:
    """Each time once it is seen to work."""
    for _ in range(often):
        asked = time.monotonic()
        terminate = TerminateUntilItWorks(f"worker-{name}", times.stop_grace, diary, name)
        with afflicted(diary.history, stack, terminate) as ended:
            eventually(lambda old=ended[0]: _runs_anew(stack, f"worker-{name}", old), 30)  # type: ignore[misc]
            assert time.monotonic() - asked < 30


@dataclass(frozen=True)
class TerminateUntilItWorks(Terminate):
    """Over when the next worker has ended a job, however long the rest of its node takes to be there."""

    diary: Diary
    cost_class: str

    def recovered(self, stack: Stack) -> None:
        ended_before = self._ended()
        eventually(lambda: self._ended() > ended_before, 60)

    def _ended(self) -> int:
        return sum(name.startswith(self.cost_class) for name in self.diary.ended())


@dataclass(frozen=True)
class TerminateOnly(Terminate):
    """Over when it has ended, since the next one cannot be there yet."""

    def recovered(self, stack: Stack) -> None: ...


def _runs_anew(stack: Stack, program: str, old: int) -> bool:
    try:
        return stack.pid(program) != old
    except StackError:  # between two starts
        return False


def _longest_wait_beside_a_worker(stack: Stack, jobs: list[str]) -> float:
    """Seconds that one of the jobs waited while a node of its class beat and was not told to stop."""
    with psycopg.connect(stack.database_url) as database:
        row = database.execute(_WAITS_BESIDE_A_WORKER, [jobs]).fetchone()
    assert row is not None
    return float(row[0])


_WAITS_BESIDE_A_WORKER = """
SELECT coalesce(max(seconds), 0) FROM (
    SELECT sum(extract(epoch FROM least(job.started_at, node.until) - greatest(job.accepted_at, node.started_at))) AS seconds
    FROM jobs_job job
    JOIN (SELECT *, coalesce(stopping_at, seen_at) AS until FROM jobs_workernode) node
      ON node.cost_class = job.cost_class AND node.started_at < job.started_at AND node.until > job.accepted_at
    WHERE job.id = ANY(%s::uuid[])
    GROUP BY job.id) waits
"""


def _attempts(stack: Stack, jobs: list[str]) -> int:
    with psycopg.connect(stack.database_url) as database:
        row = database.execute("SELECT count(*) FROM jobs_attempt WHERE job_id = ANY(%s::uuid[])", [jobs]).fetchone()
    assert row is not None
    return int(row[0])
