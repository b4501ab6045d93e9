"""Artifacts go with their job's result, before their job, and not a moment sooner."""

from typing import Any

import pytest

from jobs import sweeps
from jobs.files import artifacts
from jobs.models import Job
from tests.files import an_artifact, rows_and_files, seen
from tests.job_rows import a_node, a_running_job, read, succeed

pytestmark = pytest.mark.django_db


def a_job_with_a_file() -> Job:
    job, claimed = a_running_job(a_node())
    an_artifact(claimed)
    succeed(claimed, "result")
    return job


def test_files_go_with_the_result(settings: Any) -> None:
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = 100
    job = a_job_with_a_file()
    assert (sweeps.prune(), sweeps.prune_files()) == (0, 0)
    assert seen(job) == {"a.txt": b"content"}
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = -1
    assert (sweeps.prune(), sweeps.prune_files()) == (1, 1)
    assert seen(job) == {}
    assert rows_and_files() == (0, 0)
    assert read(job.pk).state == "succeeded"


def test_a_job_is_not_pruned_before_its_files(settings: Any) -> None:
    """A row that went first would leave a file that nobody finds."""
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = -1
    job = a_job_with_a_file()
    sweeps.prune()
    assert Job.objects.filter(pk=job.pk).exists()
    assert sweeps.prune_files() == 1
    sweeps.prune()
    assert not Job.objects.filter(pk=job.pk).exists()


def test_what_runs_and_what_is_seen_is_left_alone() -> None:
    seen_one = a_job_with_a_file()
    _, claimed = a_running_job(a_node())
    an_artifact(claimed)
    an_artifact(claimed, "b.txt", stored=False)
    assert artifacts.prune() == 0
    assert seen(seen_one) == {"a.txt": b"content"}
