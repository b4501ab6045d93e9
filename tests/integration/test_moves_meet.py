"""Two moves that meet on one row: the order is forced, the second is seen to wait for the first."""

from collections.abc import Callable

import pytest
from django.db import transaction

from jobs import leases, lifecycle
from jobs.lifecycle import Outcome
from jobs.models import Attempt, Job
from jobs.states import State
from tests import job_rows
from tests.second_connections import Elsewhere, begun_behind, waits_for_a_lock
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

LOST = Outcome(State.FAILED, error_code="worker_lost")
FAILURE = Outcome(
    State.FAILED, error_code="handler_error", error_message="ValueError", detail="Traceback …", run_seconds=0.5
)


def test_a_cancel_that_waits_for_a_claim_finds_a_running_job(other: Elsewhere) -> None:
    node, job = job_rows.a_node(), job_rows.a_queued_job()
    cancelling = begun_behind(lambda: job_rows.claim(node), other, lambda: lifecycle.cancel(job.pk))
    assert cancelling.result(10) is State.RUNNING
    job.refresh_from_db()
    assert (job.state, job.finished_at) == ("running", None)
    assert job.cancel_requested_at is not None


def test_a_claim_leaves_a_job_that_is_being_cancelled(other: Elsewhere) -> None:
    node, job = job_rows.a_node(), job_rows.a_queued_job()
    with transaction.atomic():
        lifecycle.cancel(job.pk)
        assert other.run(lambda: job_rows.claim(node)) is None
    assert other.run(lambda: job_rows.claim(node)) is None
    assert job_rows.read(job.pk).state == "cancelled"


def test_a_cancel_that_waits_for_a_settle_comes_too_late(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    cancelling = begun_behind(lambda: job_rows.succeed(claimed, 1), other, lambda: lifecycle.cancel(job.pk))
    assert cancelling.result(10) is None
    job.refresh_from_db()
    assert (job.state, job.result, job.cancel_requested_at) == ("succeeded", 1, None)


def test_a_settle_that_waits_for_a_cancel_ends_cancelled(other: Elsewhere) -> None:
    """P20: the 202 was given first."""
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    settling = begun_behind(lambda: lifecycle.cancel(job.pk), other, lambda: job_rows.succeed(claimed, 1))
    assert settling.result(10) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.result) == ("cancelled", None)
    assert Attempt.objects.get(job=job).outcome == "cancelled"


@pytest.mark.parametrize(
    ("first", "second"), [(FAILURE, Outcome(State.SUCCEEDED, 1)), (LOST, Outcome(State.SUCCEEDED, 1))]
)
def test_of_two_settles_the_first_stands(other: Elsewhere, first: Outcome, second: Outcome) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    late = begun_behind(
        lambda: lifecycle.settle(job.pk, 1, first), other, lambda: lifecycle.settle(job.pk, claimed.attempt, second)
    )
    assert late.result(10) is None
    job.refresh_from_db()
    assert (job.state, job.error_code, job.result) == ("failed", first.error_code, None)


def test_a_settle_that_waits_for_the_reaper_is_stale(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node(), max_deliveries=1)
    Job.objects.update(lease_until=job_rows.later(-1))
    late = begun_behind(lifecycle.reap, other, lambda: job_rows.succeed(claimed))
    assert late.result(10) is None
    assert job_rows.read(job.pk).error_code == "worker_lost"


def test_the_reaper_spares_a_lease_that_is_being_renewed(other: Elsewhere) -> None:
    """P17: it looks at the row again once the renewal has committed."""
    node = job_rows.a_node()
    job, claimed = job_rows.a_running_job(node)
    Job.objects.update(lease_until=job_rows.later(-1))
    reaping = begun_behind(lambda: leases.renew(node.pk, [job_rows.lease_of(claimed)], 30), other, lifecycle.reap)
    assert reaping.result(10) == 0
    assert job_rows.read(job.pk).state == "running"


@pytest.mark.parametrize("meanwhile", ["cancel", "lock"])
def test_expire_leaves_a_row_that_another_holds(other: Elsewhere, meanwhile: str) -> None:
    job = job_rows.a_queued_job(start_by=job_rows.later(-1))
    holds: dict[str, Callable[[], object]] = {
        "cancel": lambda: lifecycle.cancel(job.pk),
        "lock": lambda: Job.objects.select_for_update().get(pk=job.pk),
    }
    with transaction.atomic():
        holds[meanwhile]()
        assert other.run(lifecycle.expire) == 0
    assert other.run(lifecycle.expire) == (0 if meanwhile == "cancel" else 1)
    assert job_rows.read(job.pk).state == ("cancelled" if meanwhile == "cancel" else "expired")


def test_an_end_that_waited_for_its_row_is_stamped_when_it_has_it(other: Elsewhere) -> None:
    """Who follows ends in their order is told of it after those that came meanwhile, and not never: the stamp is not from before the wait."""
    node = job_rows.a_node()
    job, claimed = job_rows.a_running_job(node)
    with transaction.atomic():
        assert Job.objects.select_for_update().get(pk=job.pk) == job
        pid = other.backend_pid()
        settling = other.start(lambda: job_rows.succeed(claimed))
        eventually(lambda: waits_for_a_lock(pid))
        meanwhile = job_rows.a_finished_job()
    assert settling.result(10) is State.SUCCEEDED
    ends = [job_rows.read(one.pk).finished_at for one in (meanwhile, job)]
    assert ends[0] is not None and ends[1] is not None and ends[0] < ends[1]
