"""What a node reads of its leases, renews, and what its handlers report (P16)."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F

from jobs import leases, lifecycle
from jobs.models import Job, WorkerNode
from tests import job_rows
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db


def test_a_renewal_extends_the_leases_it_names_and_says_how_many(node: WorkerNode) -> None:
    running = [job_rows.a_running_job(node)[1] for _ in range(3)]
    Job.objects.update(lease_until=job_rows.later(1))
    assert leases.renew(node.pk, [job_rows.lease_of(claimed) for claimed in running[:2]], 600) == 2
    assert Job.objects.filter(lease_until__gt=job_rows.later(590)).count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_renewal_passes_over_a_row_that_another_holds_and_extends_the_rest(other: Elsewhere) -> None:
    """Nobody's open transaction on one job holds up a node's other leases."""
    node = job_rows.a_node()
    claims = [job_rows.a_running_job(node)[1] for _ in range(3)]
    Job.objects.update(lease_until=job_rows.later(10))
    held = [job_rows.lease_of(claimed) for claimed in claims]
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=claims[1].job_id)
        # It would wait for us, and we for it.
        assert other.start(lambda: leases.renew(node.pk, held, 600)).result(10) == 2
    extended = Job.objects.filter(lease_until__gt=job_rows.later(590)).values_list("pk", flat=True)
    assert set(extended) == {claims[0].job_id, claims[2].job_id}
    assert other.run(lambda: leases.renew(node.pk, held, 600)) == 3
    assert Job.objects.filter(lease_until__gt=job_rows.later(590)).count() == 3
    assert not Job.objects.filter(hard_deadline__gt=F("started_at") + timedelta(seconds=30)).exists()


def test_a_lost_lease_is_not_renewed(node: WorkerNode) -> None:
    """Another node, an older attempt, an ended job: none is extended."""
    job, claimed = job_rows.a_running_job(node)
    assert leases.renew(job_rows.a_node().pk, [job_rows.lease_of(claimed)], 600) == 0
    job_rows.requeue(job)
    assert leases.renew(node.pk, [job_rows.lease_of(claimed)], 600) == 0
    second = job_rows.claim(node)
    assert second is not None
    assert leases.renew(node.pk, [job_rows.lease_of(claimed)], 600) == 0
    assert leases.renew(node.pk, [job_rows.lease_of(second)], 600) == 1
    job_rows.succeed(second)
    assert leases.renew(node.pk, [job_rows.lease_of(second)], 600) == 0


def test_a_node_reads_back_what_it_runs(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, timeout_seconds=50.0)
    job_rows.a_running_job(job_rows.a_node())
    (lease,) = leases.of_node(node.pk)
    assert (lease.job_id, lease.attempt, lease.pid) == (job.pk, claimed.attempt, job.pid)
    assert (lease.token, lease.process_started) == (claimed.token, job.process_started)
    assert (lease.type, lease.cost_class, lease.failures, lease.max_attempts) == (job_rows.TYPE, "light", 0, 1)
    assert (lease.remaining_seconds, lease.cancel_requested) == (None, False)
    assert 50 < lease.hard_seconds <= 50 + job_rows.GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS


def test_a_node_reads_of_a_lease_its_deadline_and_its_cancel(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node, timeout_seconds=50.0, deadline_at=job_rows.later(20), max_attempts=4)
    Job.objects.filter(pk=job.pk).update(failures=2)
    lifecycle.cancel(job.pk)
    (lease,) = leases.of_node(node.pk)
    assert lease.remaining_seconds is not None
    assert 10 < lease.remaining_seconds <= 20
    assert 20 < lease.hard_seconds <= 20 + job_rows.GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS
    assert (lease.failures, lease.max_attempts, lease.cancel_requested) == (2, 4, True)


def test_progress_is_stored_for_the_attempt_that_runs_and_no_other(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    leases.report_progress(connection, job.pk, claimed.attempt, 0.25, "a quarter")
    leases.report_progress(connection, job.pk, claimed.attempt + 1, 0.75, "stale")
    job.refresh_from_db()
    assert (job.progress_fraction, job.progress_note) == (0.25, "a quarter")
    job_rows.succeed(claimed)
    leases.report_progress(connection, job.pk, claimed.attempt, 0.9, "late")
    assert job_rows.read(job.pk).progress_fraction == 0.25


@pytest.mark.django_db(transaction=True)
def test_progress_leaves_a_row_that_another_holds(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        other.run(lambda: leases.report_progress(connection, job.pk, claimed.attempt, 0.5, "not now"))
    assert job_rows.read(job.pk).progress_fraction is None
    other.run(lambda: leases.report_progress(connection, job.pk, claimed.attempt, 0.5, "now"))
    assert job_rows.read(job.pk).progress_fraction == 0.5
