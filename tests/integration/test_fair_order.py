"""In which order waiting jobs are claimed: fair over clients, then over a client's flows, then by its priorities (P11, P11a).

Each through the live path: admitted by the door, claimed by a node. A letter is a client.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from jobs import admission, lifecycle, sweeps
from jobs.admission import Admitted
from jobs.lifecycle import Claim, Outcome
from jobs.models import ApiClient, FairClock, FairDebt, FairShare, FlowShare, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.second_connections import Elsewhere
from tests.submissions import a_batch, a_submission

pytestmark = pytest.mark.django_db


def admit(client: str, cost: float = 1.0, **fields: Any) -> Job:
    owner = job_rows.a_client(client)
    asked = a_submission(client=owner, declared_cost_seconds=cost, **fields)
    answer = admission.submit(replace(asked, cost_class=replace(asked.cost_class, max_backlog_seconds=1e6)))
    assert isinstance(answer, Admitted)
    return answer.job


def weigh(client: str, weight: float) -> None:
    ApiClient.objects.filter(pk=job_rows.a_client(client).pk).update(weight=weight)


def run_one(node: WorkerNode) -> Claim | None:
    """Claimed and settled, so that nothing runs when the next one is claimed."""
    claimed = job_rows.claim(node)
    if claimed is not None:
        job_rows.succeed(claimed)
    return claimed


def run_all(node: WorkerNode) -> list[Job]:
    return [job_rows.read(claimed.job_id) for claimed in iter(lambda: run_one(node), None)]


def clients(jobs: Iterable[Job]) -> str:
    return " ".join(job.client.name for job in jobs)


def owed(job: Job) -> float:
    """By its client, in its class."""
    return sum(FairDebt.objects.filter(client=job.client, flow=None).values_list("seconds", flat=True))


def rank(job: Job) -> float:
    return job_rows.read(job.pk).rank


def test_clients_take_turns_by_the_work_they_bring(node: WorkerNode) -> None:
    """Ties go to who came first; c weighs twice as much."""
    weigh("c", 2)
    for client, costs in {"a": [10, 10], "b": [1, 1, 1], "c": [4, 4]}.items():
        for cost in costs:
            admit(client, cost)
    assert clients(run_all(node)) == "a b c b b c a"


def test_one_client_s_jobs_run_in_the_order_of_their_admission(node: WorkerNode) -> None:
    jobs = [admit("a", cost) for cost in (5, 0.1, 3, 0.01)]
    assert run_all(node) == jobs


def test_a_client_that_comes_later_does_not_wait_behind_what_another_has_queued(node: WorkerNode) -> None:
    for _ in range(10):
        admit("a")
    run_one(node)
    running = job_rows.claim(node)
    admit("b")
    assert running and clients(run_all(node)[:3]) == "a b a"


def test_a_client_that_was_idle_gets_no_credit(node: WorkerNode) -> None:
    """b, which has not been seen before, takes its turn with a from now on; it does not catch up on the past."""
    for _ in range(8):
        admit("a")
    for _ in range(4):
        run_one(node)
    running = job_rows.claim(node)
    for _ in range(3):
        admit("b")
    assert running and clients(run_all(node)) == "a b a b a b"


def test_a_client_that_used_an_idle_system_owes_nothing(node: WorkerNode) -> None:
    for _ in range(20):
        admit("a", 5)
        run_one(node)
    admit("a"), admit("b"), admit("a"), admit("b")
    assert clients(run_all(node)) == "a b a b"


def test_virtual_time_never_falls(node: WorkerNode) -> None:
    seen = []
    for cost in (5, 1, 7):
        admit("a", cost), admit("b", cost)
        claimed = job_rows.claim(node)
        admit("c", cost)
        seen.append(FairClock.objects.get().virtual_time)
        assert claimed is not None
        job_rows.succeed(claimed)
    run_all(node)
    admit("a")
    seen.append(FairClock.objects.get().virtual_time)
    assert seen == sorted(seen) and seen[-1] > 0


def test_a_job_that_is_queued_again_keeps_its_rank_and_its_client_pays(node: WorkerNode) -> None:
    first, other = admit("a", 10), admit("b", 1)
    claimed = job_rows.claim(node)
    assert claimed is not None and claimed.job_id == first.pk
    before = FairShare.objects.filter(client=other.client).values().get()
    lifecycle.retry(first.pk, claimed.attempt, Outcome(State.FAILED, error_code="x"), 0)
    assert rank(first) == 0
    assert owed(first) == 10
    assert FairShare.objects.filter(client=other.client).values().get() == before
    second, third = admit("a", 1), admit("a", 1)
    assert [rank(second), rank(third)] == [10, 10 + 10 + 1]
    assert owed(first) == 0


@pytest.mark.parametrize("end", [lifecycle.release, lifecycle.lose])
def test_a_release_or_a_lost_attempt_is_paid_for_likewise(node: WorkerNode, end: Any) -> None:
    first = admit("a", 3)
    claimed = job_rows.claim(node)
    assert claimed is not None and end(first.pk, claimed.attempt) is State.QUEUED
    assert owed(first) == 3


def test_a_priority_moves_its_own_client_s_jobs_only(node: WorkerNode) -> None:
    """b's turns, the ties with a's included, are those that it has without any priority."""
    for priority in (0, 100):
        mine = [admit("a"), admit("a")]
        theirs = [admit("b", 0.5) for _ in range(5)]
        last = admit("a", priority=priority)
        came = run_all(node)
        assert clients(came) == "a b b a b b b a"
        assert [job for job in came if job.client.name == "b"] == theirs
        assert [job for job in came if job.client.name == "a"] == ([last, *mine] if priority else [*mine, last])


def test_who_takes_the_turn_leaves_its_own(node: WorkerNode) -> None:
    """So the places that are given stay what they were, whoever has them."""
    jobs = [admit("a", 2), admit("a", 3), admit("a", 4, priority=50)]
    places = list(Job.objects.order_by("sequence").values_list("rank", "turn"))
    assert [rank for rank, _ in places] == [0, 2, 5]
    assert job_rows.claim(node) is not None
    assert list(Job.objects.order_by("sequence").values_list("rank", "turn")) == [places[2], places[1], places[0]]
    assert job_rows.read(jobs[2].pk).state == "running"


def test_a_low_priority_is_only_so_long_overtaken(node: WorkerNode) -> None:
    """Each hundredth is worth half a hundredth of the longest wait; who has waited longer than that goes first."""
    low = admit("a", priority=-100)
    ages = low.accepted_at.timestamp() + 2 * admission.ageing_seconds(a_submission().cost_class)
    assert job_rows.read(low.pk).own_order == pytest.approx(ages - admission.ageing_seconds(a_submission().cost_class))
    high = admit("a", priority=100)
    later = admit("a", priority=100)
    Job.objects.filter(pk=later.pk).update(own_order=ages + 1)  # as if it had come after that time
    assert run_all(node) == [high, low, later]


def test_flows_share_their_client_s_turns(node: WorkerNode) -> None:
    many = [admit("a", flow="x") for _ in range(4)]
    few = [admit("a", flow="y") for _ in range(2)]
    assert run_all(node) == [many[0], few[0], many[1], few[1], *many[2:]]


def test_flows_take_nothing_from_other_clients(node: WorkerNode) -> None:
    for number in range(6):
        admit("a", flow=f"flow {number}")
    admit("b"), admit("b")
    assert clients(run_all(node)) == "a b a b a a a a"


def test_a_priority_moves_its_own_flow_s_jobs_only(node: WorkerNode) -> None:
    x, y = [admit("a", flow="x") for _ in range(2)], [admit("a", flow="y") for _ in range(2)]
    urgent = admit("a", flow="y", priority=100)
    assert run_all(node) == [x[0], urgent, x[1], *y]


def test_the_jobs_of_a_batch_take_their_turns_like_others(node: WorkerNode) -> None:
    from jobs import batches

    items = {
        f"i{number}": a_submission(client=job_rows.a_client("a"), declared_cost_seconds=2.0) for number in range(3)
    }
    batches.submit(a_batch(items, client=job_rows.a_client("a")))
    admit("b"), admit("b")
    assert clients(run_all(node)) == "a b b a a"


def test_a_job_in_backoff_is_overtaken_and_keeps_its_rank(node: WorkerNode) -> None:
    waits, goes = admit("a"), admit("a")
    Job.objects.filter(pk=waits.pk).update(available_at=job_rows.later(60))
    assert [job.pk for job in run_all(node)] == [goes.pk]
    Job.objects.filter(pk=waits.pk).update(available_at=job_rows.later(-1))
    assert [job.pk for job in run_all(node)] == [waits.pk]


def test_flows_that_are_used_no_more_leave_no_rows_and_lose_or_win_nothing(node: WorkerNode) -> None:
    """They are named by callers: without an end each name would stay for ever."""
    for number in range(5):
        admit("a", flow=f"flow {number}")
    run_all(node)
    last = admit("a", flow="flow 0")
    assert sweeps.prune() == 0
    FlowShare.objects.update(used_at=job_rows.later(-3_601))
    FairShare.objects.update(used_at=job_rows.later(-3_601))
    FairShare.objects.update(flow_time=1)
    assert sweeps.prune() == 4, "all but the one that is ahead of its client's clock"
    assert FlowShare.objects.get().flow == "flow 0"
    assert run_all(node) == [last]
    assert sweeps.prune() == 1, "its client has nothing left in the class"
    FairClock.objects.update(virtual_time=100)
    assert sweeps.prune() == 1, "nor is the client ahead of the class's clock"
    assert not FairShare.objects.exists()
    assert rank(admit("a")) >= 100


@pytest.mark.django_db(transaction=True)
def test_a_requeue_and_an_admission_of_one_client_do_not_wait_for_each_other(other: Elsewhere) -> None:
    """A settle in an open transaction, which a lost connection may leave for a while, holds no admission up."""
    node = job_rows.a_node()
    first = admit("a", 2)
    claimed = job_rows.claim(node)
    assert claimed is not None
    with transaction.atomic():
        lifecycle.retry(first.pk, claimed.attempt, Outcome(State.FAILED, error_code="x"), 0)
        assert other.run(lambda: admit("a").client.name) == "a"


def test_what_nobody_comes_back_to_pay_is_forgotten(node: WorkerNode) -> None:
    first = admit("a", 3)
    claimed = job_rows.claim(node)
    assert claimed is not None
    lifecycle.release(first.pk, claimed.attempt)
    FairDebt.objects.update(owed_at=job_rows.later(-3_601))
    sweeps.prune()
    assert owed(first) == 3, "its job waits still"
    lifecycle.cancel(first.pk)
    sweeps.prune()
    assert owed(first) == 0
