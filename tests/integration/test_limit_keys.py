"""Of jobs that name a key only so many run at once, on all workers together, and none behind them waits for it (P12)."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs import admission, queries, sweeps, wakeups
from jobs.admission import Admitted
from jobs.lifecycle import Claim
from jobs.models import ApiClient, Job, LimitKey, WorkerNode
from tests import job_rows
from tests.submissions import a_submission

pytestmark = pytest.mark.django_db


def admit(*keys: str, client: str = "tests", **fields: Any) -> Job:
    answer = admission.submit(a_submission(client=job_rows.a_client(client), limit_keys=keys, **fields))
    assert isinstance(answer, Admitted)
    return answer.job


def claims(node: WorkerNode, *expected: Job | None) -> list[Claim]:
    claimed = [job_rows.claim(node) for _ in expected]
    assert [one and one.job_id for one in claimed] == [job and job.pk for job in expected]
    return [one for one in claimed if one is not None]


@pytest.mark.parametrize("maximum", [0, 1, 2])
def test_so_many_run_at_once_and_the_next_when_one_has_ended(node: WorkerNode, maximum: int) -> None:
    LimitKey.objects.create(pattern="licence", maximum=maximum)
    jobs = [admit("licence") for _ in range(maximum + 2)]
    running = claims(node, *jobs[:maximum], None)
    if running:
        job_rows.succeed(running[0])
        claims(node, jobs[maximum], None)


def test_a_key_that_no_limit_is_about_holds_nothing(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=0)
    jobs = [admit("other") for _ in range(3)]
    claims(node, *jobs)


def test_a_held_key_does_not_block_the_jobs_behind_it(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=1)
    first, held, free, other = admit("licence"), admit("licence"), admit(), admit("other")
    running = claims(node, first, free, other, None)
    job_rows.succeed(running[0])
    claims(node, held)


def test_nor_those_of_its_own_client_behind_it_by_priority(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=0)
    admit("licence", priority=100)
    free = admit(priority=-100)
    claims(node, free, None)


def test_a_job_needs_room_under_each_of_its_keys(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="a", maximum=1)
    LimitKey.objects.create(pattern="b", maximum=1)
    both, only_a, only_b = admit("a", "b"), admit("a"), admit("b")
    running = claims(node, both, None)
    job_rows.succeed(running[0])
    claims(node, only_a, only_b)


@pytest.mark.parametrize(("own", "started"), [(None, 1), (3, 3), (0, 0)])
def test_a_pattern_limits_each_key_that_begins_with_it_and_a_key_s_own_row_comes_first(
    node: WorkerNode, own: int | None, started: int
) -> None:
    LimitKey.objects.create(pattern="customer:*", maximum=1)
    LimitKey.objects.create(pattern="cust*", maximum=2)
    if own is not None:
        LimitKey.objects.create(pattern="customer:7", maximum=own)
    jobs, another = [admit("customer:7") for _ in range(4)], admit("customer:8")
    claims(node, *jobs[:started], another, None)


def test_a_limit_is_changed_live(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=1)
    jobs = [admit("licence") for _ in range(3)]
    claims(node, jobs[0], None)
    LimitKey.objects.update(maximum=2)
    claims(node, jobs[1], None)
    LimitKey.objects.all().delete()
    claims(node, jobs[2], None)


def test_a_limit_counts_what_runs_in_every_class(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=1)
    heavy = job_rows.a_node("heavy")
    admit("licence", cost_class="heavy")
    assert job_rows.claim(heavy, "heavy") is not None
    admit("licence")
    claims(node, None)


def test_a_client_may_be_let_run_only_so_many(node: WorkerNode) -> None:
    ApiClient.objects.filter(pk=job_rows.a_client("a").pk).update(max_running=1)
    first, second, other = admit(client="a"), admit(client="a"), admit(client="b")
    running = claims(node, first, other, None)
    job_rows.succeed(running[0])
    claims(node, second)


def test_no_wake_up_is_sent_for_what_a_limit_holds(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="licence", maximum=1)
    admit("licence"), admit("licence"), admit()
    assert queries.claimable("light") == 3
    running = claims(node, Job.objects.order_by("sequence")[0])
    assert queries.claimable("light") == 1
    job_rows.succeed(running[0])
    assert queries.claimable("light") == 2


def test_the_end_of_what_held_them_wakes_the_next_at_once(run: Callable[..., Job]) -> None:
    """In the class where they wait, by the process that settles, not by the next sweep."""
    LimitKey.objects.create(pattern="licence", maximum=1)
    job_rows.a_node("heavy")
    job_rows.a_queued_job("heavy", limit_keys=["licence"])
    seen: list[int | None] = []

    def handler(ctx: Any) -> None:
        sweeps.top_up()  # while it runs there is nothing to wake
        seen.append(wakeups.queue_length("heavy"))

    run(handler, limit_keys=["licence"])
    assert [*seen, wakeups.queue_length("heavy")] == [0, 1]


def test_the_end_of_a_job_without_limits_asks_nothing(run: Callable[..., Job]) -> None:
    job_rows.a_node("heavy")
    job_rows.a_queued_job("heavy")
    run(lambda ctx: None)
    assert wakeups.queue_length("heavy") == 0
