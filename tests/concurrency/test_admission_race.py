"""Any number of processes at the door, and never one job too many (P1, P3)."""

from collections import Counter

import pytest
from django.db import connection

from jobs.models import Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.concurrency.crowd import Crowd, rounds_until
from tests.submissions import submit, verdict

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 6


def _sum(counts: list[dict[str, int]]) -> Counter[str]:
    return sum((Counter(count) for count in counts), Counter())


@pytest.mark.parametrize(("processes", "max_waiting"), [(2, 0), (2, 1), (3, 17)])
def test_at_the_limit_exactly_the_bound_is_admitted(crowd: Crowd, processes: int, max_waiting: int) -> None:
    """4 processes × 6 connections × 2 attempts, for several rounds; every answer is one or the other."""
    job_rows.a_node(processes=processes)
    bound = processes + max_waiting
    shared: list[int] = []
    for number in rounds_until(lambda: len(shared) >= 2, at_least=6):
        counts = crowd.all_do("submit_many", threads=THREADS, each=2, max_waiting=max_waiting)
        assert _sum(counts) == {"admitted": bound, "queue_full": crowd.size * THREADS * 2 - bound}
        assert Job.objects.filter(state="queued", admitted_bound=bound).count() == bound
        if sum("admitted" in count for count in counts) > 1:
            shared.append(number)
        Job.objects.all().delete()
    print(f"bound {bound}: in the rounds {shared} more than one process was admitted")
    assert len(shared) >= 2


def test_each_place_that_comes_free_is_given_once(crowd: Crowd) -> None:
    """Nine of ten places are taken all the time: every round is a race for the last one."""
    job_rows.a_node(processes=2)
    while verdict(submit(8)) == "admitted":
        pass
    winners: Counter[int] = Counter()
    for _ in rounds_until(lambda: len(winners) >= 2, at_least=12):
        Job.objects.filter(pk=Job.objects.order_by("sequence")[0].pk).delete()
        counts = crowd.all_do("submit_many", threads=THREADS, each=1, max_waiting=8)
        assert _sum(counts)["admitted"] == 1
        winners.update(number for number, count in enumerate(counts) if "admitted" in count)
    print(f"won by process: {dict(winners)}")
    assert len(winners) >= 2


def test_one_job_comes_of_a_key_however_many_ask_for_it_at_once(crowd: Crowd) -> None:
    """P6: of 4 processes × 6 connections that come with one key, one is admitted and all are told its job."""
    job_rows.a_node(processes=2)
    keys = [f"key {number}" for number in range(12)]
    came = crowd.all_do("submit_under_keys", keys=keys, threads=THREADS)
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


def test_two_classes_at_once_do_not_count_each_other(crowd: Crowd) -> None:
    job_rows.a_node("light", processes=2)
    job_rows.a_node("heavy", processes=1)
    light, heavy = (
        {"threads": THREADS, "each": 3, "max_waiting": 5, "cost_class": name} for name in ("light", "heavy")
    )
    counts = crowd.do([("submit_many", light), ("submit_many", light), ("submit_many", heavy), ("submit_many", heavy)])
    assert (_sum(counts[:2])["admitted"], _sum(counts[2:])["admitted"]) == (7, 6)


def test_admissions_that_race_with_claims_settles_and_cancels_keep_their_bound(crowd: Crowd) -> None:
    """P3, from the stored bound: at no admission were more jobs live than it allowed."""
    node = job_rows.a_node(processes=2)
    at_door, at_work = {"seconds": 3.0, "threads": 4}, {"seconds": 3.0, "threads": 1, "node": str(node.pk)}
    counts = crowd.do([("submit_for", {**at_door, "max_waiting": 1})] * 2 + [("work_for", at_work)] * 2)
    door, work = _sum(counts[:2]), _sum(counts[2:])
    print(f"at the door {dict(door)}, at work {dict(work)}")
    assert set(door) == {"admitted", "queue_full"}
    assert min(door["admitted"], door["queue_full"], work["succeeded"], work["cancelled"]) >= 10
    assert Job.objects.count() == door["admitted"]
    assert _admissions_above_their_bound() == 0
    assert Job.objects.filter(state=State.SUCCEEDED).count() == work["succeeded"]
    assert Job.objects.filter(state=State.CANCELLED).count() == work["cancelled"]


def _admissions_above_their_bound() -> int:
    """A job that had ended at an instant had left the count before, so this never accuses wrongly."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM jobs_job mine
               WHERE admitted_bound < (SELECT count(*) FROM jobs_job live
                                       WHERE live.sequence <= mine.sequence
                                         AND (live.finished_at IS NULL OR live.finished_at > mine.accepted_at))"""
        )
        return int(cursor.fetchone()[0])


def test_the_check_of_the_bound_can_fail() -> None:
    """One job more than its bound, written past the door."""
    for _ in range(2):
        job_rows.a_queued_job(admitted_bound=2)
    assert _admissions_above_their_bound() == 0
    job_rows.a_queued_job(admitted_bound=2)
    assert _admissions_above_their_bound() == 1


def test_slots_that_vanish_admit_nobody_until_the_surplus_has_gone(crowd: Crowd) -> None:
    """P3: more may wait than max_waiting then, and nothing is added to it."""
    node = job_rows.a_node(processes=8)
    assert _sum(crowd.all_do("submit_many", threads=2, each=2, max_waiting=2))["admitted"] == 10
    WorkerNode.objects.filter(pk=node.pk).update(processes=1)
    assert _sum(crowd.all_do("submit_many", threads=2, each=2, max_waiting=2)) == {"queue_full": 16}
    keep = Job.objects.order_by("sequence").values_list("pk", flat=True)[:2]
    Job.objects.exclude(pk__in=list(keep)).delete()
    assert _sum(crowd.all_do("submit_many", threads=2, each=2, max_waiting=2))["admitted"] == 1
