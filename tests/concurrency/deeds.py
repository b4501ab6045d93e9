"""What a member of the crowd can be told to do. Each gets the member first, and returns plain data."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from jobs import lifecycle, outbox, sweeps
from jobs.admission import Rejected, Submission
from jobs.idempotency import Idempotency
from jobs.models import WorkerNode
from tests import job_rows
from tests.concurrency import recorded
from tests.concurrency.crowd import Member
from tests.second_connections import at_once
from tests.submissions import a_submission, verdict


def submit_many(
    member: Member, history: Path, threads: int, each: int, max_waiting: int, cost_class: str = "light"
) -> dict[str, int]:
    """How often each verdict was given."""

    asked = a_submission(max_waiting, cost_class)

    def some() -> list[str]:
        return [verdict(recorded.submit(history, asked)) for _ in range(each)]

    return dict(Counter(sum(at_once(*[some] * threads), [])))


def submit_under_keys(member: Member, history: Path, keys: list[str], threads: int) -> list[list[tuple[str, str]]]:
    """For each key, all members come to it at once with a few threads each: (verdict, job) of each thread."""
    came = []
    for key in keys:
        asked = a_submission(idempotency=Idempotency(key, "f"))
        member.meet()
        came.append(at_once(*[lambda asked=asked: _verdict_and_job(history, asked)] * threads))
    return came


def _verdict_and_job(history: Path, asked: Submission) -> tuple[str, str]:
    answer = recorded.submit(history, asked)
    return verdict(answer), "" if isinstance(answer, Rejected) else str(answer.job.pk)


def submit_for(member: Member, history: Path, seconds: float, threads: int, max_waiting: int) -> dict[str, int]:
    """Submits without a pause; how often each verdict was given."""
    asked = a_submission(max_waiting)

    def some() -> list[str]:
        return _repeat(seconds, lambda: verdict(recorded.submit(history, asked)))

    return dict(Counter(sum(at_once(*[some] * threads), [])))


def work_for(member: Member, history: Path, seconds: float, threads: int, node: str) -> dict[str, int]:
    """Claims and settles without a pause, as the processes of one node; every fourth job is cancelled while it runs."""
    turn = itertools.count()

    def work() -> str:
        claimed = job_rows.claim(WorkerNode(id=UUID(node)))
        if claimed is None:
            return "nothing"
        if next(turn) % 4 == 0:
            recorded.cancel(history, claimed.job_id)
        return str(job_rows.succeed(claimed))

    return dict(Counter(sum(at_once(*[lambda: _repeat(seconds, work)] * threads), [])))


def _repeat(seconds: float, act: Callable[[], str]) -> list[str]:
    until = time.monotonic() + seconds
    done = []
    while time.monotonic() < until:
        done.append(act())
    return done


def claim_all(member: Member, node: str, cost_class: str, together: int) -> list[tuple[str, int, int]]:
    """Claims until there is nothing more, the first ones side by side with all others: (job, attempt, our pid)."""
    mine: list[tuple[str, int, int]] = []
    for turn in itertools.count():
        if turn < together:
            member.meet()
        claimed = job_rows.claim(WorkerNode(id=UUID(node)), cost_class)
        if claimed is None:
            return mine
        mine.append((str(claimed.job_id), claimed.attempt, os.getpid()))
    raise AssertionError


def expire_each(member: Member, jobs: list[str]) -> list[int]:
    """For each job, whether it was ended by us; all members come to a job at once."""
    ended = []
    for job in jobs:
        member.meet()
        ended.append(lifecycle.expire(UUID(job)))
    return ended


def reap(member: Member) -> int:
    return lifecycle.reap()


def run_due_sweeps(member: Member, names: list[str]) -> list[str]:
    """run_due() on sweeps that only say that they ran."""
    ran: list[str] = []

    def say(name: str) -> Callable[[], int]:
        def run_once() -> int:
            ran.append(name)
            return 0

        return run_once

    usual = sweeps.all_sweeps
    sweeps.all_sweeps = lambda: [sweeps.Sweep(name, 60, say(name)) for name in names]
    try:
        sweeps.run_due()
    finally:
        sweeps.all_sweeps = usual
    return ran


def sweep_outbox(member: Member, runs: int) -> int:
    """How many entries this process ended, of which none is left to anybody after so many runs."""
    return sum(outbox.run_once() for _ in range(runs))
