"""Which job a claim takes, and what it writes (P13)."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from jobs import lifecycle, nodes
from jobs.lifecycle import Claimant
from jobs.models import Attempt, Job, WorkerNode
from tests import job_rows
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)


def test_jobs_are_claimed_in_the_order_of_their_admission(node: WorkerNode) -> None:
    jobs = [job_rows.a_queued_job() for _ in range(4)]
    Job.objects.filter(pk=jobs[3].pk).update(
        accepted_at=job_rows.later(-60)
    )  # a clock that was set back changes nothing
    claimed = [job_rows.claim(node) for _ in range(5)]
    assert [c and c.job_id for c in claimed] == [*(job.pk for job in jobs), None]


def test_a_claim_says_what_is_to_be_run(node: WorkerNode) -> None:
    job = job_rows.a_queued_job(params={"a": [1, None, "é"]}, request_id="r-1", timeout_seconds=7.5)
    Job.objects.filter(pk=job.pk).update(accepted_at=job_rows.later(-3), available_at=job_rows.later(-3))
    claimed = job_rows.claim(node)
    assert claimed is not None
    assert 3 <= claimed.wait_seconds < 60
    assert (claimed.job_id, claimed.attempt, claimed.type, claimed.cost_class) == (job.pk, 1, job_rows.TYPE, "light")
    assert (claimed.params, claimed.limit_seconds, claimed.request_id) == ({"a": [1, None, "é"]}, 7.5, "r-1")
    assert (claimed.remaining_seconds, claimed.failures, claimed.max_attempts) == (None, 0, 1)
    assert claimed.token == Attempt.objects.get(job=job).pk


def test_a_claim_writes_who_runs_it_and_until_when(node: WorkerNode) -> None:
    job_rows.a_queued_job(timeout_seconds=7.5)
    claimed = lifecycle.claim(Claimant(node.pk, 4711, 99), "light", [job_rows.TYPE], 30, 2)
    assert claimed is not None
    job = job_rows.read(claimed.job_id)
    assert job.started_at and job.lease_until and job.hard_deadline
    assert (job.state, job.attempt, job.node_id, job.pid, job.process_started) == ("running", 1, node.pk, 4711, 99)
    # Each instant is the clock's of its own moment inside one statement.
    assert abs(job.lease_until - job.started_at - timedelta(seconds=30)) < timedelta(seconds=0.5)
    assert abs(job.hard_deadline - job.started_at - timedelta(seconds=7.5 + 2 + 5)) < timedelta(seconds=0.5)


def test_a_claim_opens_an_attempt(node: WorkerNode) -> None:
    job_rows.a_queued_job()
    claimed = lifecycle.claim(Claimant(node.pk, 4711, 99), "light", [job_rows.TYPE], 30, 2)
    assert claimed is not None
    attempt = Attempt.objects.get(job_id=claimed.job_id)
    assert (attempt.number, attempt.node_id, attempt.pid, attempt.process_started) == (1, node.pk, 4711, 99)
    assert attempt.started_at is not None
    assert (attempt.finished_at, attempt.outcome) == (None, "")


def test_a_second_attempt_keeps_the_first_start(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node)
    job_rows.requeue(job)
    second = job_rows.claim(node)
    assert second is not None
    assert (second.job_id, second.attempt) == (first.job_id, 2)
    assert job_rows.read(job.pk).started_at == job.started_at
    assert list(Attempt.objects.filter(job=job).order_by("number").values_list("number", flat=True)) == [1, 2]


def test_a_type_the_node_does_not_know_is_left_to_others(node: WorkerNode) -> None:
    job_rows.a_queued_job(type="tests.foreign")
    known = job_rows.a_queued_job()
    claimed = job_rows.claim(node)
    assert claimed is not None and claimed.job_id == known.pk
    assert job_rows.claim(node) is None
    assert job_rows.claim(node, types=()) is None
    assert job_rows.claim(node, types=(job_rows.TYPE, "tests.foreign")) is not None


def test_another_class_is_left_to_others(node: WorkerNode) -> None:
    job_rows.a_queued_job("heavy")
    assert job_rows.claim(node, "light") is None
    assert job_rows.claim(node, "heavy") is not None


def test_a_node_told_to_stop_claims_nothing(node: WorkerNode) -> None:
    job_rows.a_queued_job()
    nodes.stopping(node.pk)
    assert job_rows.claim(node) is None
    assert job_rows.claim(job_rows.a_node()) is not None


def test_a_node_that_stopped_claims_nothing(node: WorkerNode) -> None:
    job_rows.a_queued_job()
    nodes.stopped(node.pk)
    assert job_rows.claim(node) is None


def test_a_node_that_never_registered_claims_nothing(db: None) -> None:
    job_rows.a_queued_job()
    unknown = lifecycle.claim(Claimant(uuid4(), 1, 1), "light", [job_rows.TYPE], 30, 5)
    assert unknown is None
    assert not Job.objects.exclude(state="queued").exists()


def test_a_job_waits_until_it_is_due(node: WorkerNode) -> None:
    job = job_rows.a_queued_job(available_at=job_rows.later(60))
    assert job_rows.claim(node) is None
    Job.objects.filter(pk=job.pk).update(available_at=job_rows.later(0))
    assert job_rows.claim(node) is not None


def test_a_job_past_its_start_by_is_not_started_and_one_before_it_is(node: WorkerNode) -> None:
    job_rows.a_queued_job(start_by=job_rows.later(-0.001))
    assert job_rows.claim(node) is None
    in_time = job_rows.a_queued_job(start_by=job_rows.later(60))
    claimed = job_rows.claim(node)
    assert claimed is not None and claimed.job_id == in_time.pk


def test_a_job_without_start_by_may_start_at_any_time(node: WorkerNode) -> None:
    job_rows.a_queued_job(start_by=None, accepted_at=job_rows.later(-86_400))
    assert job_rows.claim(node) is not None


@two_connections
def test_a_claim_steps_over_a_row_that_another_holds(other: Elsewhere) -> None:
    node = job_rows.a_node()
    first, second = job_rows.a_queued_job(), job_rows.a_queued_job()
    with transaction.atomic():
        here = job_rows.claim(node)
        there = other.run(lambda: job_rows.claim(node))
        nobody = other.run(lambda: job_rows.claim(node))
    assert (here and here.job_id, there and there.job_id, nobody) == (first.pk, second.pk, None)
