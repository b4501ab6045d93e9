"""Sweeps with two beats, with none, and with nobody at all."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from stack.local import Stack
from stack.programs import ROOT
from tests.acceptance import figures, records
from tests.acceptance.diary import Diary
from tests.acceptance.faults.times import ALLOWANCE_SECONDS, SWEEP_SECONDS
from tests.acceptance.figures import counted, figure
from tests.api_client import Api
from tests.history.nemesis import Away, afflicted
from tests.waiting import eventually

SWEEPS = ("expire", "reap", "top_up")
OVERDUE_SECONDS = 3 * SWEEP_SECONDS  # a keeper runs a sweep that is two intervals late


def test_with_two_beats_each_stale_job_expires_once(stack: Stack, api: Api, diary: Diary) -> None:
    expired_before = counted(stack, "jobs_finished_total", cost_class="heavy", outcome="expired")
    with _second_beat(stack):
        stale = _stale_behind_held(api, diary, count=10)
        _must_expire_in_the_database(stack, stale)
    moved = counted(stack, "jobs_finished_total", cost_class="heavy", outcome="expired") - expired_before
    assert moved == len(stale)
    assert sorted(diary.began()) == ["held0", "held1"]


def test_without_a_beat_a_keeper_sweeps(stack: Stack, api: Api, diary: Diary) -> None:
    with afflicted(diary.history, stack, Away("beat")):
        _must_expire_in_the_database(stack, _stale_behind_held(api, diary, count=3))
        metrics = figures.text(stack)
        assert all((_age(metrics, sweep) or 0) < OVERDUE_SECONDS + ALLOWANCE_SECONDS for sweep in SWEEPS)
    assert sorted(diary.began()) == ["held0", "held1"]


def test_when_nobody_sweeps_it_shows_in_the_metrics(stack: Stack, api: Api, diary: Diary) -> None:
    with afflicted(diary.history, stack, Away("beat", "worker-light", "worker-heavy", "worker-control")):
        stale = api.submit("tests.note", diary.params("stale", cost_class="heavy"), max_wait_seconds=0.1)
        eventually(
            lambda: all((_age(figures.text(stack), s) or 0) > OVERDUE_SECONDS + ALLOWANCE_SECONDS for s in SWEEPS), 15
        )
        assert _states(stack, [stale]) == {"queued"}, "nobody has looked at it"
        assert api.job(stale)["state"] == "expired", "a read that meets it stores the truth first"
    eventually(lambda: all((_age(figures.text(stack), s) or 9) < OVERDUE_SECONDS for s in SWEEPS), 15)


def _stale_behind_held(api: Api, diary: Diary, count: int) -> list[str]:
    """Ids of jobs that cannot start before they are stale, because both processes are held."""
    for i in range(2):
        api.submit("tests.note", diary.params(f"held{i}", cost_class="heavy", held=True))
    diary.wait_until_began("held0", "held1")
    return [
        api.submit("tests.note", diary.params(f"s{i}", cost_class="heavy"), max_wait_seconds=0.3) for i in range(count)
    ]


def _must_expire_in_the_database(stack: Stack, job_ids: list[str]) -> None:
    """Looked at from outside the API, whose reads would expire them themselves."""
    eventually(lambda: _states(stack, job_ids) == {"expired"}, 0.3 + OVERDUE_SECONDS + ALLOWANCE_SECONDS)


def _states(stack: Stack, job_ids: list[str]) -> set[str]:
    return {row.state for row in records.jobs(stack.database_url, "heavy") if row.id in job_ids}


def _age(metrics: str, sweep: str) -> float | None:
    return figure(metrics, "sweep_last_run_seconds", sweep=sweep)


@contextmanager
def _second_beat(stack: Stack) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "project", "beat", "-S", "celery.beat:Scheduler", "--pidfile="]
    with (stack.data_dir / "logs/second-beat.log").open("wb") as log:
        beat = subprocess.Popen(command, env=stack.environment, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield
        assert beat.poll() is None, "there were two"
    finally:
        beat.terminate()
        beat.wait(10)
