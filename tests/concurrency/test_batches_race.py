"""Batches at the door beside jobs and each other, and at their seal beside whoever ends their jobs (P1, P3, P6, P9, P20)."""

import itertools
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs import batches, lifecycle
from jobs.batches import BatchAdmitted
from jobs.models import Batch, BatchItem, Job
from jobs.states import State
from tests import job_rows
from tests.concurrency.crowd import Crowd, rounds_until
from tests.concurrency.rounds import hit, is_in_turn, race
from tests.submissions import a_batch, a_submission

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 4
ROUNDS = 60  # a batch costs more than a job


def _sum(counts: list[dict[str, int]]) -> Counter[str]:
    return sum((Counter(count) for count in counts), Counter())


# ── At the door ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_batches_over_two_classes_exactly_as_many_are_admitted_as_fit_and_each_whole(crowd: Crowd) -> None:
    """4 processes × 4 connections; half name the classes in the other order, and nobody waits for ever."""
    job_rows.a_node("light", processes=2)
    job_rows.a_node("heavy", processes=3)
    sizes, max_waiting = {"light": 3, "heavy": 2}, 12  # of light jobs 4 batches fit, with 2 places left
    shared: list[int] = []
    for number in rounds_until(lambda: len(shared) >= 2, at_least=3):
        deed = {"threads": THREADS, "each": 1, "sizes": sizes, "max_waiting": max_waiting, "atomic": True}
        counts = crowd.all_do("submit_batches", **deed)
        assert _sum(counts) == {"admitted": 4, "queue_full": crowd.size * THREADS - 4}
        live = Counter(Job.objects.filter(state="queued").values_list("cost_class", flat=True))
        assert live == {"light": 12, "heavy": 8}
        if sum("admitted" in count for count in counts) > 1:
            shared.append(number)
        for batch_id in Batch.objects.filter(sealed_at=None).values_list("pk", flat=True):
            batches.cancel(batch_id)
    assert set(Counter(BatchItem.objects.values_list("batch", flat=True)).values()) == {5}
    print(f"in the rounds {shared} more than one process was admitted")


def test_beside_jobs_that_come_alone_no_place_is_given_twice_or_left(crowd: Crowd, history: Path) -> None:
    """Those that come each by itself fill what is left to the last place; the checker judges each admission (P3)."""
    job_rows.a_node("light", processes=2)
    job_rows.a_node("heavy", processes=2)
    many = {"threads": THREADS, "each": 3, "sizes": {"heavy": 2, "light": 2}, "max_waiting": 19, "atomic": False}
    alone = {"history": history, "threads": THREADS, "each": 6, "max_waiting": 19, "cost_class": "light"}
    crowd.do([("submit_batches", many), ("submit_many", alone), ("submit_batches", many), ("submit_many", alone)])
    live = Counter(Job.objects.filter(state="queued").values_list("cost_class", flat=True))
    assert live == {"light": 21, "heavy": 21}
    of_batches = Job.objects.filter(batch__isnull=False, cost_class="light").count()
    print(f"light jobs of batches {of_batches}, alone {21 - of_batches}")
    assert BatchItem.objects.filter(refusal="queue_full").exists()
    assert set(Job.objects.values_list("admitted_bound", flat=True)) == {21}


def test_of_jobs_and_batches_that_come_with_one_key_one_wins(crowd: Crowd) -> None:
    """Their items have keys too, in any order, that many of them share; nobody waits for ever (P6)."""
    job_rows.a_node("light", processes=2)
    keys = [f"k{number}" for number in range(12)]
    came = crowd.all_do("submit_job_or_batch", keys=keys, threads=THREADS)
    winners: Counter[str] = Counter()
    for of_one_key in zip(*came, strict=True):
        told = Counter(answer for mine in of_one_key for answer in mine)
        (won,) = told.keys() & {"job admitted", "batch admitted"}
        assert told[won] == 1
        kind = won.split()[0]
        assert told.keys() <= {
            won,
            f"{kind} replayed",
            "mismatch",
            *(f"{k} idempotency_in_flight" for k in ("job", "batch")),
        }
        assert told[f"{kind} replayed"] >= 1
        assert told["mismatch"] >= 1
        winners[kind] += 1
    print(f"won: {dict(winners)}")
    assert min(winners["job"], winners["batch"]) >= 2
    assert Batch.objects.count() == winners["batch"]
    shared = Job.objects.filter(idempotencykey__key__startswith="shared")
    assert (shared.count(), Job.objects.count()) == (5, winners["job"] + 5)


# ── At the seal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _batches_for_rounds(jobs: int, **fields: Any) -> list[UUID]:
    """One for each round, all of whose jobs run."""
    made = []
    for _ in range(ROUNDS):
        answer = batches.submit(a_batch({f"i{n}": a_submission(10_000) for n in range(jobs)}, **fields))
        assert isinstance(answer, BatchAdmitted)
        made.append(answer.batch_id)
    moment = job_rows.later(3600)
    Job.objects.update(
        state="running", attempt=1, started_at=job_rows.later(0), lease_until=moment, hard_deadline=moment
    )
    return made


def _jobs_of(batch_id: UUID) -> list[UUID]:
    return [
        job
        for job in BatchItem.objects.filter(batch=batch_id).order_by("position").values_list("job", flat=True)
        if job
    ]


def _succeed(job_id: UUID) -> State | None:
    return lifecycle.settle(job_id, 1, lifecycle.Outcome(State.SUCCEEDED, result=1, run_seconds=0.1))


def _told(batch_id: UUID) -> tuple[str, list[str]]:
    seen = batches.as_it_is(job_rows.a_client().pk, batch_id)
    return seen.batch.state, [item.verdict for item in seen.items]


def test_of_two_that_end_the_last_two_jobs_at_once_one_seals() -> None:
    made = _batches_for_rounds(jobs=2)
    jobs = [_jobs_of(batch_id) for batch_id in made]
    sealed: list[UUID] = []
    batches.sealed.connect(count := lambda sender, batch_id, **more: sealed.append(batch_id), weak=False)
    try:
        race(lambda r: _succeed(jobs[r][0]), lambda r: _succeed(jobs[r][1]), rounds=ROUNDS)
    finally:
        batches.sealed.disconnect(count)
    assert sorted(sealed) == sorted(made), "each, once"
    assert not Batch.objects.filter(sealed_at=None).exists()


def test_a_result_against_a_cancel_of_the_batch() -> None:
    """Whoever is second finds the first: a result that is told is never taken back, and none comes after."""
    made = _batches_for_rounds(jobs=1)
    jobs = [_jobs_of(batch_id)[0] for batch_id in made]
    so_far = [threading.Event() for _ in made]

    def cancel(round_: int) -> tuple[str, list[str]]:
        with connection.execute_wrapper(_tells_before(round_ % 8, so_far[round_])):
            batches.cancel(made[round_])
        so_far[round_].set()
        return _told(made[round_])

    def succeed(round_: int) -> State | None:
        """Before the first statement of the cancel, or in the middle of it."""
        assert is_in_turn(round_) or so_far[round_].wait(30)
        return _succeed(jobs[round_])

    outcomes: Counter[str] = Counter()
    races = race(cancel, succeed, rounds=ROUNDS)
    for batch_id, (told, settled) in zip(made, races, strict=True):
        assert told == _told(batch_id)
        assert told == (("finished", ["ok"]) if settled is State.SUCCEEDED else ("cancelled", ["cancelled"]))
        outcomes[told[0]] += 1
    hit(outcomes, "finished", "cancelled", at_least=ROUNDS // 6)


def _tells_before(number: int, reached: threading.Event) -> Any:
    """Around statements: says so before the one of that number, counted from 0."""
    numbers = itertools.count()

    def run(execute: Any, *given: Any) -> Any:
        if next(numbers) == number:
            reached.set()
        return execute(*given)

    return run


def test_a_result_against_the_deadline_and_two_that_look() -> None:
    """By the database's clock: what ended before it counts, what ended after it does not, and all readers agree."""
    made = _batches_for_rounds(jobs=1, deadline_in_seconds=3600.0)
    jobs = [_jobs_of(batch_id)[0] for batch_id in made]

    def let_it_come(round_: int) -> tuple[str, list[str]]:
        Batch.objects.filter(pk=made[round_], sealed_at=None).update(deadline_at=job_rows.later(0))
        return _told(made[round_])

    def look(round_: int) -> tuple[str, list[str]]:
        batches.seal(made[round_])
        return _told(made[round_])

    outcomes: Counter[str] = Counter()
    for batch_id, (first, settled, second) in zip(
        made, race(let_it_come, lambda r: _succeed(jobs[r]), look, rounds=ROUNDS), strict=True
    ):
        row, job = Batch.objects.get(pk=batch_id), Job.objects.get(batch=batch_id)
        assert row.deadline_at is not None and job.finished_at is not None
        told = _told(batch_id)
        assert first == told
        assert second in [told, ("running", ["pending"])]
        in_time = settled is State.SUCCEEDED and job.finished_at <= row.deadline_at
        assert told == ("finished", ["ok" if in_time else "deadline_exceeded"])
        outcomes[told[1][0]] += 1
    hit(outcomes, "ok", "deadline_exceeded")


def test_four_processes_that_seal_the_same_batches_seal_each_once(crowd: Crowd) -> None:
    made = _batches_for_rounds(jobs=3, deadline_in_seconds=3600.0)
    Batch.objects.update(deadline_at=job_rows.later(-1))
    sealed = crowd.all_do("seal_due")
    print(f"sealed by process: {sealed}")
    assert sum(sealed) == len(made)
    assert BatchItem.objects.filter(unfinished=True).count() == 3 * len(made)
    assert Job.objects.filter(state="running", cancel_requested_at__isnull=False).count() == 3 * len(made)
