"""What a member of the crowd can be told to do. Each gets the member first, and returns plain data."""

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

from jobs import admission, batches, lifecycle, sweeps, tally
from jobs.admission import Rejected
from jobs.batches import BatchSubmission
from jobs.door.idempotency import Idempotency, Mismatch
from jobs.door.submission import Submission
from jobs.models import Job, WorkerNode
from jobs.submit import outbox
from jobs.turns import pacing
from tests import job_rows
from tests.concurrency import recorded
from tests.concurrency.crowd import Member
from tests.second_connections import at_once
from tests.submissions import a_batch, a_class, a_submission, batch_verdict, verdict

# It is the bound that is raced for, whoever may have its last places (P10); and minutes would be written from a thread, with a connection.
setattr(pacing, "_anyone_expected", lambda cost_class: False)  # noqa: B010
tally.WRITTEN_AFTER_SECONDS = 3_600.0


def _beyond_the_lock(ask: Callable[[], str]) -> str:
    """As a caller does who was told to come again: on a busy machine the lock's second may pass before its turn comes."""
    told = (ask() for _ in range(30))
    return next((one for one in told if one != "unavailable"), "unavailable")


def submit_many(
    member: Member, history: Path, threads: int, each: int, max_waiting: int, cost_class: str = "light"
) -> dict[str, int]:
    """How often each verdict was given."""

    asked = a_submission(max_waiting, cost_class)

    def some() -> list[str]:
        return [_beyond_the_lock(lambda: verdict(recorded.submit(history, asked))) for _ in range(each)]

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


def work_under_limits(member: Member, node: str, threads: int) -> int:
    """Claims and settles until nothing may start and nothing waits; how many it ran."""

    def work() -> int:
        ran = 0
        while Job.objects.filter(state="queued").exists():
            if (claimed := job_rows.claim(WorkerNode(id=UUID(node)))) is not None:
                job_rows.succeed(claimed)
                ran += 1
        return ran

    member.meet()
    return sum(at_once(*[work] * threads))


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


def submit_batches(
    member: Member, threads: int, each: int, sizes: dict[str, int], max_waiting: int, atomic: bool
) -> dict[str, int]:
    """So many jobs of each class in every batch; odd members name the classes in the other order."""
    classes = list(sizes) if member.number % 2 == 0 else list(reversed(sizes))
    items = {f"{name}{n}": a_submission(max_waiting, name) for name in classes for n in range(sizes[name])}
    asked = BatchSubmission(job_rows.a_client(), items, atomic)

    def some() -> list[str]:
        return [_beyond_the_lock(lambda: batch_verdict(batches.submit(asked))) for _ in range(each)]

    return dict(Counter(sum(at_once(*[some] * threads), [])))


def submit_job_or_batch(member: Member, keys: list[str], threads: int) -> list[list[str]]:
    """For each key, half of the members come with a job, and half with a batch: what each thread was told."""
    came = []
    for key in keys:
        asked: Callable[[], str] = partial(_one_job if member.number % 2 else _one_batch, key)
        member.meet()
        came.append(at_once(*[asked] * threads))
    return came


def _one_job(key: str) -> str:
    if int(key.removeprefix("k")) % 2:
        time.sleep(0.2)  # a batch takes longer to come to its lock; no result depends on it
    try:
        answer = admission.submit(a_submission(idempotency=Idempotency(key, "a job")))
    except Mismatch:
        return "mismatch"
    return f"job {verdict(answer)}"


def _one_batch(key: str) -> str:
    """With items whose own keys are those of the other batches, in whatever order."""
    number = int(key.removeprefix("k"))
    items = {
        f"i{n}": a_submission(idempotency=Idempotency(f"shared{(number * 7 + n) % 5}", "an item")) for n in range(5)
    }
    try:
        return f"batch {batch_verdict(batches.submit(a_batch(items, idempotency=Idempotency(key, 'a batch'))))}"
    except Mismatch:
        return "mismatch"


def seal_due(member: Member) -> int:
    return batches.seal_due()


def take_turns(member: Member, clients: list[int], each: int, base: float, spacing: float) -> list[int]:
    """The seconds that so many refused requests of this member's client are told, without jitter."""
    pacing.JITTER_SHARE = 0.0
    caller = pacing.whose(clients[member.number], None)
    return [pacing._taken(caller, a_class("heavy"), base, spacing, spacing) for _ in range(each)]
