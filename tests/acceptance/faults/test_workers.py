"""Children and keepers killed, frozen, or too slow: their jobs end, their places come back."""

import os
import signal
import time
from datetime import datetime

from stack.local import Stack
from tests.acceptance import processes
from tests.acceptance.diary import Diary
from tests.acceptance.faults.times import (
    ALLOWANCE_SECONDS,
    BEAT_SECONDS,
    LEASE_SECONDS,
    LIMIT_GRACE_SECONDS,
    SWEEP_SECONDS,
)
from tests.acceptance.figures import counted
from tests.api_client import Api
from tests.waiting import eventually

SETTLED_SECONDS = 3.0  # after its child was killed
BACK_SECONDS = 10.0  # until both processes run jobs again
HARD_DEADLINE_MARGIN_SECONDS = 5.0


def test_the_job_of_a_killed_child_is_settled_within_seconds_and_both_processes_work_again(
    api: Api, diary: Diary
) -> None:
    job_id = api.submit("tests.note", diary.params("victim", cost_class="heavy", held=True))
    diary.wait_until_began("victim")
    os.kill(diary.first("begin", "victim").pid, signal.SIGKILL)

    job = api.ended(job_id, SETTLED_SECONDS)
    assert (job["state"], job["error"]["code"]) == ("failed", "worker_lost")
    _two_must_run_at_once(api, diary)
    assert diary.began().count("victim") == 1


def test_a_killed_keeper_takes_celery_with_it_and_its_jobs_end_within_lease_and_sweep(
    stack: Stack, api: Api, diary: Diary
) -> None:
    jobs = [api.submit("tests.note", diary.params(f"k{i}", cost_class="heavy", held=True)) for i in range(2)]
    queued = api.submit("tests.note", diary.params("queued", cost_class="heavy"))
    diary.wait_until_began("k0", "k1")
    keeper = stack.pid("worker-heavy")
    tree = processes.with_descendants(keeper)
    assert {diary.first("begin", name).pid for name in ("k0", "k1")} < set(tree)
    os.kill(keeper, signal.SIGKILL)
    killed_at = time.monotonic()

    eventually(lambda: not any(processes.lives(pid) for pid in tree), 3)
    for job_id in jobs:
        left = killed_at + LEASE_SECONDS + SWEEP_SECONDS + ALLOWANCE_SECONDS - time.monotonic()
        job = api.ended(job_id, left)
        assert (job["state"], job["error"]["code"]) == ("failed", "worker_lost")
    assert api.ended(queued, 30)["state"] == "succeeded", "the process manager brought the worker back"
    assert stack.pid("worker-heavy") != keeper
    stack.wait_ready(30)
    _two_must_run_at_once(api, diary)
    assert diary.began().count("k0") == diary.began().count("k1") == 1


def test_a_body_that_outlives_its_hard_deadline_is_killed(api: Api, diary: Diary) -> None:
    """It ends as failed/timeout; after a cancel was answered with 202, as cancelled (P20)."""
    left_alone, cancelled = (
        api.submit("tests.note", diary.params(name, cost_class="heavy", held=True), timeout_seconds=0.5)
        for name in ("left-alone", "cancelled")
    )
    diary.wait_until_began("left-alone", "cancelled")
    children = [diary.first("begin", name).pid for name in ("left-alone", "cancelled")]
    assert api.cancel(cancelled).status_code == 202

    jobs = [api.ended(left_alone), api.ended(cancelled)]
    assert (jobs[0]["state"], jobs[0]["error"]["code"]) == ("failed", "timeout")
    assert (jobs[1]["state"], jobs[1]["error"]) == ("cancelled", None)
    deadline = 0.5 + LIMIT_GRACE_SECONDS + HARD_DEADLINE_MARGIN_SECONDS
    for job in jobs:
        ran = _seconds_between(job["started_at"], job["finished_at"])
        assert deadline <= ran <= deadline + BEAT_SECONDS + ALLOWANCE_SECONDS
    eventually(lambda: not any(processes.lives(pid) for pid in children), 1)
    _two_must_run_at_once(api, diary)


def test_a_node_that_was_frozen_past_its_lease_changes_nothing_when_it_comes_back(
    stack: Stack, api: Api, diary: Diary
) -> None:
    stale_before = counted(stack, "stale_settles_total")
    job_id = api.submit("tests.note", diary.params("frozen", cost_class="heavy", held=True))
    diary.wait_until_began("frozen")
    tree = processes.with_descendants(stack.pid("worker-heavy"))
    _signal_all(tree, signal.SIGSTOP)
    try:
        reaped = api.ended(job_id, LEASE_SECONDS + SWEEP_SECONDS + ALLOWANCE_SECONDS)
        assert (reaped["state"], reaped["error"]["code"]) == ("failed", "worker_lost")
        diary.open_gate()
    finally:
        _signal_all(tree, signal.SIGCONT)
    eventually(lambda: counted(stack, "stale_settles_total") == stale_before + 1)
    assert api.job(job_id) == reaped
    assert diary.began().count("frozen") == 1


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _two_must_run_at_once(api: Api, diary: Diary) -> None:
    pair = [api.submit("tests.note", diary.params(f"pair{i}", cost_class="heavy", held=True)) for i in range(2)]
    diary.wait_until_began("pair0", "pair1", within_seconds=BACK_SECONDS)
    diary.open_gate()
    assert {api.ended(job_id)["state"] for job_id in pair} == {"succeeded"}
