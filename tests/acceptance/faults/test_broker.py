"""The broker flushed, refused, hung: nothing is lost, every submit is answered in time."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import redis

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.faults.times import ALLOWANCE_SECONDS, ANSWER_SECONDS, CONSUME_AGAIN_SECONDS, SWEEP_SECONDS
from tests.acceptance.figures import counted
from tests.api_client import Api
from tests.history.nemesis import Away, afflicted
from tests.history.recorder import now
from tests.history.server_nemesis import REDIS, FlushRedis, Freeze, Stop, no_worker_restarts
from tests.published_schema import as_published
from tests.waiting import eventually

PROCESSES = 2
BREAKER_SECONDS = 5.0  # then the next caller pays the time-out again


def test_after_a_flush_every_waiting_job_runs_once_the_first_within_one_sweep(
    stack: Stack, api: Api, diary: Diary
) -> None:
    """Both processes are busy when the queue is emptied and free right after it."""
    held = [api.submit("tests.note", diary.params(f"held{i}", cost_class="heavy", held=True)) for i in range(PROCESSES)]
    diary.wait_until_began("held0", "held1")
    waiting = [api.submit("tests.note", diary.params(f"w{i}", seconds=0.05, cost_class="heavy")) for i in range(20)]
    with redis.Redis.from_url(stack.redis_url) as broker:
        assert broker.llen("heavy") >= len(waiting) - 1, "there are wake-ups to lose"
    with afflicted(diary.history, stack, FlushRedis()):
        diary.open_gate()
        flushed_at = now()
        assert {api.ended(job_id)["state"] for job_id in [*held, *waiting]} == {"succeeded"}
    assert sorted(diary.began()) == sorted(["held0", "held1", *(f"w{i}" for i in range(20))]), "each ran once"
    first = min(diary.first(f"w{i}").at for i in range(20))
    assert first - flushed_at <= SWEEP_SECONDS + ALLOWANCE_SECONDS
    assert diary.longest_idle(PROCESSES, since=flushed_at) <= SWEEP_SECONDS + ALLOWANCE_SECONDS


def test_while_the_broker_refuses_jobs_are_accepted_in_time_and_the_sweep_starts_them_later(
    stack: Stack, api: Api, diary: Diary
) -> None:
    failed_before = counted(stack, "wakeups_failed_total")
    with no_worker_restarts(stack), afflicted(diary.history, stack, Stop(REDIS, BREAKER_SECONDS)):
        with afflicted(diary.history, stack, AwayAmidTrouble("web")):
            pass  # its processes have never seen the broker
        answers = _submits(api, diary, 10)
        _must_be_in_time(answers)
        _must_be_degraded(stack)
        stale = api.submit("tests.note", diary.params("stale", cost_class="heavy"), max_wait_seconds=0.5)
        assert api.in_state(stale, "expired")["error"]["code"] == "max_wait", "keepers sweep when nobody ticks"
    assert counted(stack, "wakeups_failed_total") > failed_before, "their wake-ups were lost"
    _must_all_run_once(api, diary, answers)
    eventually(lambda: _readyz(stack)["status"] == "ok", 2 * BREAKER_SECONDS)


def test_while_the_broker_hangs_the_first_and_the_tenth_submit_are_answered_in_time(
    stack: Stack, api: Api, diary: Diary
) -> None:
    with afflicted(diary.history, stack, Freeze(REDIS, BREAKER_SECONDS)):
        began_at = time.monotonic()
        answers = _submits(api, diary, 10)
        _must_be_degraded(stack)
        # One that finds the breaker half open pays once more, and no more than the first.
        eventually(lambda: time.monotonic() > began_at + BREAKER_SECONDS, 2 * BREAKER_SECONDS)
        answers += _submits(api, diary, 2, first=10)
        _must_be_in_time(answers)
    _must_all_run_once(api, diary, answers)
    eventually(lambda: _readyz(stack)["status"] == "ok", 2 * BREAKER_SECONDS)


class AwayAmidTrouble(Away):
    """Over when it answers, though the stack is not whole."""

    def recovered(self, stack: Stack) -> None:
        eventually(lambda: _lives(stack), 20)


def _lives(stack: Stack) -> bool:
    try:
        return httpx.get(f"{stack.url}/healthz", timeout=10, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class Answer:
    status: int
    job_id: str
    seconds: float


def _submits(api: Api, diary: Diary, count: int, first: int = 0) -> list[Answer]:
    """One after the other, each over a connection of its own, so that every web process gets some."""
    return [_submit(api, diary.params(f"a{i}", cost_class="heavy")) for i in range(first, first + count)]


def _submit(api: Api, params: dict[str, object]) -> Answer:
    began_at = time.monotonic()
    response = api.post("tests.note", params)
    return Answer(response.status_code, response.json().get("id", ""), time.monotonic() - began_at)


def _must_be_in_time(answers: list[Answer]) -> None:
    assert {answer.status for answer in answers} == {202}
    assert max(answer.seconds for answer in answers) < ANSWER_SECONDS, [round(a.seconds, 2) for a in answers]


def _must_be_degraded(stack: Stack) -> None:
    assert (_readyz(stack)["status"], _readyz(stack)["broker"]) == ("degraded", "away")


def _readyz(stack: Stack) -> dict[str, object]:
    response = as_published(httpx.get(f"{stack.url}/readyz", timeout=10, trust_env=False))
    assert response.status_code == 200, "jobs can be accepted"
    return dict(response.json())


def _must_all_run_once(api: Api, diary: Diary, answers: list[Answer]) -> None:
    for answer in answers:
        job = api.ended(answer.job_id, CONSUME_AGAIN_SECONDS)
        assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert sorted(diary.began()) == sorted(f"a{i}" for i in range(len(answers)))


def test_who_waits_is_told_within_a_second_also_while_the_broker_is_away(stack: Stack, api: Api, diary: Diary) -> None:
    """The notice cannot be sent; each web process asks the database for all of its waiters (P31)."""
    job_id = api.submit("tests.note", diary.params("awaited", cost_class="heavy", held=True))
    diary.wait_until_began("awaited")
    with afflicted(diary.history, stack, Stop(REDIS)), ThreadPoolExecutor(1) as thread:
        answer = thread.submit(api.http.get, f"/jobs/{job_id}", headers={"Prefer": "wait=15"})
        assert not answer.done()
        diary.open_gate()
        ended = api.ended(job_id, 5)
        told = answer.result(1.0 + ALLOWANCE_SECONDS)
    assert (told.status_code, told.json()) == (200, ended)
    assert told.headers["Preference-Applied"] == "wait=15"
