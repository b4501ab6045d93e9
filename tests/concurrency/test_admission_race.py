"""Any number of processes at the door, and never one job too many (P1, P3)."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from jobs.models import Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.concurrency import recorded
from tests.concurrency.crowd import Crowd, rounds_until
from tests.submissions import a_submission, verdict

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 6


def _cancel_all(history: Path, jobs: Iterable[Job]) -> None:
    for job in jobs:
        recorded.cancel(history, job.pk)


def _sum(counts: list[dict[str, int]]) -> Counter[str]:
    return sum((Counter(count) for count in counts), Counter())


@pytest.mark.parametrize(("processes", "max_waiting"), [(2, 0), (2, 1), (3, 17)])
def test_at_the_limit_exactly_the_bound_is_admitted(
    crowd: Crowd, history: Path, processes: int, max_waiting: int
) -> None:
    """4 processes × 6 connections × 2 attempts, for several rounds; every answer is one or the other."""
    job_rows.a_node(processes=processes)
    bound = processes + max_waiting
    shared: list[int] = []
    for number in rounds_until(lambda: len(shared) >= 2, at_least=6):
        counts = crowd.all_do("submit_many", history=history, threads=THREADS, each=2, max_waiting=max_waiting)
        assert _sum(counts) == {"admitted": bound, "queue_full": crowd.size * THREADS * 2 - bound}
        assert Job.objects.filter(state="queued", admitted_bound=bound).count() == bound
        if sum("admitted" in count for count in counts) > 1:
            shared.append(number)
        _cancel_all(history, Job.objects.filter(state="queued"))
    print(f"bound {bound}: in the rounds {shared} more than one process was admitted")
    assert len(shared) >= 2


def test_each_place_that_comes_free_is_given_once(crowd: Crowd, history: Path) -> None:
    """Nine of ten places are taken all the time: every round is a race for the last one."""
    job_rows.a_node(processes=2)
    while verdict(recorded.submit(history, a_submission(8))) == "admitted":
        pass
    winners: Counter[int] = Counter()
    for _ in rounds_until(lambda: len(winners) >= 2, at_least=12):
        _cancel_all(history, Job.objects.filter(state="queued").order_by("sequence")[:1])
        counts = crowd.all_do("submit_many", history=history, threads=THREADS, each=1, max_waiting=8)
        assert _sum(counts)["admitted"] == 1
        winners.update(number for number, count in enumerate(counts) if "admitted" in count)
    print(f"won by process: {dict(winners)}")
    assert len(winners) >= 2


def test_one_job_comes_of_a_key_however_many_ask_for_it_at_once(crowd: Crowd, history: Path) -> None:
    """P6: of 4 processes × 6 connections that come with one key, one is admitted and all are told its job."""
    job_rows.a_node(processes=2)
    keys = [f"key {number}" for number in range(12)]
    came = crowd.all_do("submit_under_keys", history=history, keys=keys, threads=THREADS)
    outcomes: Counter[str] = Counter()
    for of_one_key in zip(*came, strict=True):
        answers = [answer for mine in of_one_key for answer in mine]
        verdicts = Counter(verdict for verdict, _ in answers)
        assert verdicts["admitted"] == 1
        assert set(verdicts) <= {"admitted", "replayed", "idempotency_in_flight"}
        assert len({job for _, job in answers if job}) == 1
        outcomes += verdicts
    print(f"told: {dict(outcomes)}")
    assert outcomes["replayed"] >= 12 * 10
    assert Job.objects.count() == len(keys)


def test_two_classes_at_once_do_not_count_each_other(crowd: Crowd, history: Path) -> None:
    job_rows.a_node("light", processes=2)
    job_rows.a_node("heavy", processes=1)
    light, heavy = (
        {"history": history, "threads": THREADS, "each": 3, "max_waiting": 5, "cost_class": name}
        for name in ("light", "heavy")
    )
    counts = crowd.do([("submit_many", light), ("submit_many", light), ("submit_many", heavy), ("submit_many", heavy)])
    assert (_sum(counts[:2])["admitted"], _sum(counts[2:])["admitted"]) == (7, 6)


def test_admissions_that_race_with_claims_settles_and_cancels_keep_their_bound(crowd: Crowd, history: Path) -> None:
    """P3: the checker finds no admission at which more jobs were live than its stored bound allowed."""
    node = job_rows.a_node(processes=2)
    for_a_while = {"history": history, "seconds": 3.0}
    at_door, at_work = {**for_a_while, "threads": 4}, {**for_a_while, "threads": 1, "node": str(node.pk)}
    counts = crowd.do([("submit_for", {**at_door, "max_waiting": 1})] * 2 + [("work_for", at_work)] * 2)
    door, work = _sum(counts[:2]), _sum(counts[2:])
    print(f"at the door {dict(door)}, at work {dict(work)}")
    assert set(door) == {"admitted", "queue_full"}
    assert min(door["admitted"], door["queue_full"], work["succeeded"], work["cancelled"]) >= 10
    assert Job.objects.count() == door["admitted"]
    assert Job.objects.filter(state=State.SUCCEEDED).count() == work["succeeded"]
    assert Job.objects.filter(state=State.CANCELLED).count() == work["cancelled"]


def test_slots_that_vanish_admit_nobody_until_the_surplus_has_gone(crowd: Crowd, history: Path) -> None:
    """P3: more may wait than max_waiting then, and nothing is added to it."""
    node = job_rows.a_node(processes=8)
    assert _sum(crowd.all_do("submit_many", history=history, threads=2, each=2, max_waiting=2))["admitted"] == 10
    WorkerNode.objects.filter(pk=node.pk).update(processes=1)
    assert _sum(crowd.all_do("submit_many", history=history, threads=2, each=2, max_waiting=2)) == {"queue_full": 16}
    _cancel_all(history, Job.objects.filter(state="queued").order_by("sequence")[2:])
    assert _sum(crowd.all_do("submit_many", history=history, threads=2, each=2, max_waiting=2))["admitted"] == 1
