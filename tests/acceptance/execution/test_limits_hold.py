"""A job ends at its limit whatever its handler does, and nothing of it stays (P21)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stack.local import Stack
from tests import processes
from tests.acceptance.diary import Diary
from tests.acceptance.execution.conftest import attempts_of
from tests.acceptance.times import Times
from tests.api_client import Api
from tests.history.events import BodyBegan
from tests.history.nemesis import PauseKeeper, afflicted
from tests.history.recorder import History
from tests.history.server_nemesis import POSTGRES, REDIS, Stop
from tests.waiting import eventually

LIMIT = 0.5
CEILING = 30.0  # of class light
BEYOND = 2.0  # limit and grace
USABLE_SECONDS = 10.0  # until a child that was ended has its successor, on a busy machine

# Whether the watchdog has to end it, and so leaves a trace of where it stood.
STUBBORN = {
    "swallow": "_swallow",
    "hold the GIL": "_hold_the_gil",
}
LISTENING = ["loop", "ask the database", "read a socket"]


def _ran_seconds(job: dict[str, Any]) -> float:
    return (datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(job["started_at"])).total_seconds()


def _must_have_timed_out(job: dict[str, Any], times: Times) -> None:
    assert (job["state"], job["error"]["code"]) == ("failed", "timeout"), job
    assert _ran_seconds(job) <= LIMIT + times.limit_grace + BEYOND


@pytest.mark.parametrize("how", LISTENING)
def test_a_handler_that_waits_or_computes_ends_at_its_limit(
    stack: Stack, api: Api, diary: Diary, times: Times, how: str
) -> None:
    job = api.ended(api.submit("tests.behave", {"how": how}, timeout_seconds=LIMIT))
    _must_have_timed_out(job, times)
    assert [row[1] for row in attempts_of(stack, job["id"])] == ["failed"]
    diary.both_processes_work(api, USABLE_SECONDS)


@pytest.mark.parametrize("how", STUBBORN)
def test_a_handler_that_does_not_listen_is_ended_and_its_trace_is_kept(
    stack: Stack, api: Api, diary: Diary, times: Times, how: str
) -> None:
    job = api.ended(api.submit("tests.behave", {"how": how}, timeout_seconds=LIMIT))
    _must_have_timed_out(job, times)
    [(_, _, _, detail, _)] = attempts_of(stack, job["id"])
    assert f"in {STUBBORN[how]}" in detail
    diary.both_processes_work(api, USABLE_SECONDS)


def test_behind_the_watchdog_stands_the_keepers_hard_deadline(api: Api, times: Times) -> None:
    """For a handler that swallows everything and has switched the watchdog off."""
    job = api.ended(api.submit("tests.behave", {"how": "outwit the watchdog"}, timeout_seconds=LIMIT))
    assert (job["state"], job["error"]["code"]) == ("failed", "timeout")
    hard_deadline = LIMIT + times.limit_grace + 5.0
    assert hard_deadline <= _ran_seconds(job) <= hard_deadline + 1.0 + 2.0


@pytest.mark.timeout(240)
def test_behind_the_keeper_stands_celerys_own_limit(
    stack: Stack, api: Api, history: History, times: Times, full: bool
) -> None:
    """For a keeper that stands still: the child ends by its class's ceiling, graces and lease, and then it is settled."""
    if not full:
        pytest.skip("It lasts more than a minute; --full runs it.")
    job_id = api.submit("tests.behave", {"how": "outwit the watchdog", "cost_class": "light"}, timeout_seconds=LIMIT)
    api.in_state(job_id, "running")
    child, keeper = _child_of(stack, job_id), stack.pid("worker-light")
    with afflicted(history, stack, PauseKeeper("worker-light")):
        eventually(lambda: not processes.lives(child), CEILING + times.limit_grace + 5 + times.lease + 1 + 10)
    assert stack.pid("worker-light") == keeper
    assert api.ended(job_id, 60)["state"] == "failed"


def test_what_it_logged_before_it_was_ended_is_kept(stack: Stack, api: Api, times: Times) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "log and wait"}, timeout_seconds=LIMIT))
    _must_have_timed_out(job, times)
    assert "a line that is kept" in attempts_of(stack, job["id"])[0][4]


@pytest.mark.parametrize("how", ["start a process", "leave a process", "leave a process of a thread"])
def test_the_processes_of_a_job_go_with_it(api: Api, word: Path, how: str) -> None:
    api.ended(api.submit("tests.behave", {"how": how, "note": str(word)}, timeout_seconds=LIMIT))
    eventually(lambda: not processes.lives(int(word.read_text())), 3)


@pytest.mark.parametrize("how", ["leave a thread", "leave a bare thread", "lower its limits"])
def test_what_the_next_job_would_feel_takes_its_process_with_it_and_the_job_succeeds(
    stack: Stack, api: Api, history: History, how: str
) -> None:
    with _no_task_is_lost(stack):
        assert api.ended(api.submit("tests.behave", {"how": how}))["state"] == "succeeded"
        _has_left(history)


def test_a_process_in_which_a_handler_was_cut_short_takes_no_other_job(
    stack: Stack, api: Api, history: History
) -> None:
    """It may have been in the middle of an import, which cannot be begun a second time."""
    with _no_task_is_lost(stack):
        api.ended(api.submit("tests.behave", {"how": "loop"}, timeout_seconds=LIMIT))
        _has_left(history)


@contextmanager
def _no_task_is_lost(stack: Stack) -> Iterator[None]:
    """To Celery and Flower the task has succeeded, whatever became of the job and of the process."""
    log = stack.log("worker-heavy")
    before = log.stat().st_size
    yield
    assert "WorkerLostError" not in log.read_bytes()[before:].decode()


def _has_left(history: History) -> None:
    [body] = [event for event in history.events(BodyBegan) if isinstance(event, BodyBegan)]
    eventually(lambda: not processes.lives(body.pid), 5)


def test_a_handler_that_has_taken_our_alarm_has_timed_out_all_the_same(stack: Stack, api: Api, times: Times) -> None:
    """Its process ends without a trace, as it does where no trace can be written."""
    job = api.ended(api.submit("tests.behave", {"how": "put another alarm"}, timeout_seconds=LIMIT))
    _must_have_timed_out(job, times)
    assert job["attempt"] == 1
    assert "left no trace" in attempts_of(stack, job["id"])[0][3]


@pytest.mark.parametrize("how", ["use processes of its own", "put something in the background"])
def test_what_a_handler_starts_works_as_anywhere_while_it_runs(api: Api, word: Path, how: str) -> None:
    job = api.ended(api.submit("tests.behave", {"how": how, "note": str(word)}), 30)
    assert (job["state"], job["attempt"]) == ("succeeded", 1), job["error"]


def test_a_deadline_that_comes_before_the_limit_is_named(api: Api, times: Times) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "loop"}, deadline_seconds=LIMIT))
    assert (job["state"], job["error"]["code"]) == ("failed", "deadline")
    assert _ran_seconds(job) <= LIMIT + times.limit_grace + BEYOND
    assert job["deadline_at"] is not None


def test_a_limit_holds_while_redis_is_away(stack: Stack, api: Api, history: History, times: Times) -> None:
    job_id = api.submit("tests.behave", {"how": "swallow"}, timeout_seconds=2)
    api.in_state(job_id, "running")
    with afflicted(history, stack, Stop(REDIS)):
        job = api.ended(job_id, 20)
        assert (job["state"], job["error"]["code"]) == ("failed", "timeout")
        assert _ran_seconds(job) <= 2 + times.limit_grace + BEYOND


def test_a_limit_holds_while_the_database_is_away(stack: Stack, api: Api, history: History, times: Times) -> None:
    """Longer than the lease: nobody starts it again, and what became of it is stored when the database is back."""
    job_id = api.submit("tests.behave", {"how": "swallow"}, timeout_seconds=2)
    api.in_state(job_id, "running")
    child = _child_of(stack, job_id)
    with afflicted(history, stack, Stop(POSTGRES, back_seconds=60)):
        eventually(lambda: not processes.lives(child), 2 + times.limit_grace + BEYOND)
    job = api.ended(job_id, 30)
    assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "timeout", 1)


def _child_of(stack: Stack, job_id: str) -> int:
    import psycopg

    with psycopg.connect(stack.database_url) as database:
        row = database.execute("SELECT pid FROM jobs_job WHERE id = %s", [job_id]).fetchone()
    assert row is not None
    return int(row[0])
