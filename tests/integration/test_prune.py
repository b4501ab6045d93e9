"""What is kept for its time, and no longer: results, jobs, nodes; a batch at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from jobs import sweeps
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows

pytestmark = pytest.mark.django_db


def _ago(seconds: float) -> Any:
    return Now() - timedelta(seconds=seconds)


@pytest.fixture
def keep(settings: Any) -> None:
    """Results 100 s, rows 1,000 s."""
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = 100
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 1_000


@pytest.mark.parametrize(("age", "emptied"), [(95, False), (105, True)])
def test_a_result_is_emptied_after_its_retention(keep: None, age: float, emptied: bool) -> None:
    job = job_rows.a_finished_job(result={"a": 1}, finished_at=_ago(age))
    assert sweeps.prune() == int(emptied)
    job.refresh_from_db()
    assert (job.result, job.result_expired) == ((None, True) if emptied else ({"a": 1}, False))
    assert job.state == "succeeded"
    assert sweeps.prune() == 0


def test_a_job_without_a_result_has_none_to_expire(keep: None) -> None:
    job = job_rows.a_finished_job(State.FAILED, finished_at=_ago(105), error_code="timeout")
    assert sweeps.prune() == 0
    assert not job_rows.read(job.pk).result_expired


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED])
@pytest.mark.parametrize(("age", "deleted"), [(995, False), (1_005, True)])
def test_a_finished_job_is_deleted_after_its_retention(keep: None, state: State, age: float, deleted: bool) -> None:
    job = job_rows.a_finished_job(state, finished_at=_ago(age), accepted_at=_ago(5_000))
    Attempt.objects.create(job=job, number=1, pid=1, process_started=1)
    sweeps.prune()
    assert Job.objects.filter(pk=job.pk).exists() is not deleted
    assert Attempt.objects.filter(job_id=job.pk).exists() is not deleted


def test_a_live_job_is_never_pruned(keep: None) -> None:
    node = job_rows.a_node()
    running, _ = job_rows.a_running_job(node)
    queued = job_rows.a_queued_job(accepted_at=_ago(100_000))
    Job.objects.filter(pk=running.pk).update(accepted_at=_ago(100_000), started_at=_ago(100_000))
    assert sweeps.prune() == 0
    assert Job.objects.filter(pk__in=[running.pk, queued.pk]).count() == 2


# Its jobs' retention, but at least an hour, and ten leases.
@pytest.mark.parametrize(("keep_seconds", "lease", "least"), [(9_000, 30, 9_000), (1, 30, 3_600), (1, 600, 6_000)])
@pytest.mark.parametrize(("beyond", "deleted"), [(-5, False), (5, True)])
def test_a_node_that_was_not_seen_for_long_is_deleted_and_its_attempts_stay(
    settings: Any, keep_seconds: float, lease: float, least: float, beyond: float, deleted: bool
) -> None:
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS, settings.WEIGHBRIDGE_LEASE_SECONDS = keep_seconds, lease
    age = least + beyond
    node = job_rows.a_node()
    _, claimed = job_rows.a_running_job(node)
    job_rows.succeed(claimed)
    WorkerNode.objects.update(seen_at=_ago(age))
    sweeps.prune()
    assert WorkerNode.objects.exists() is not deleted
    assert Attempt.objects.get(job_id=claimed.job_id).node_id == (None if deleted else node.pk)


def test_a_node_that_runs_a_job_stays_however_long_it_was_not_seen(keep: None) -> None:
    node = job_rows.a_node()
    running, _ = job_rows.a_running_job(node)
    WorkerNode.objects.update(seen_at=_ago(100_000))
    assert sweeps.prune() == 0
    assert job_rows.read(running.pk).node_id == node.pk


def test_prune_counts_jobs_and_reads_no_more_of_them_than_their_ids(keep: None) -> None:
    for _ in range(2):
        job = job_rows.a_finished_job(result={"big": "x"}, result_expired=True, finished_at=_ago(2_000))
        Attempt.objects.create(job=job, number=1, pid=1, process_started=1)
    with CaptureQueriesContext(connection) as made:
        assert sweeps.prune() == 2
    read = [query["sql"] for query in made if query["sql"].startswith("SELECT") and 'FROM "jobs_job"' in query["sql"]]
    assert read
    assert not any("params" in sql or '"result"' in sql for sql in read)


def test_prune_takes_the_oldest_first_and_a_batch_at_a_time(keep: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PRUNE_BATCH", 2)
    monkeypatch.setattr(sweeps, "PRUNE_BATCHES", 1)
    ages = [2_000, 5_000, 3_000, 1_500, 4_000]
    jobs = {age: job_rows.a_finished_job(State.FAILED, finished_at=_ago(age)) for age in ages}

    def left() -> set[int]:
        kept = set(Job.objects.values_list("pk", flat=True))
        return {age for age, job in jobs.items() if job.pk in kept}

    sweeps.prune()
    assert left() == {1_500, 2_000, 3_000}
    sweeps.prune()
    assert left() == {1_500}
    sweeps.prune()
    assert left() == set()


def test_results_are_emptied_a_batch_at_a_time(keep: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PRUNE_BATCH", 2)
    monkeypatch.setattr(sweeps, "PRUNE_BATCHES", 1)
    for _ in range(5):
        job_rows.a_finished_job(result=1, finished_at=_ago(200))
    assert [sweeps.prune() for _ in range(4)] == [2, 2, 1, 0]


def test_one_run_prunes_many_batches_but_not_without_end(keep: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PRUNE_BATCH", 2)
    monkeypatch.setattr(sweeps, "PRUNE_BATCHES", 2)
    for _ in range(5):
        job_rows.a_finished_job(result=1, finished_at=_ago(200))
    assert [sweeps.prune() for _ in range(3)] == [4, 1, 0]
