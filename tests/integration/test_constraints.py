"""What the tables refuse, whoever writes: constraints, and terminal rows that stay as they ended (P37)."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import IntegrityError

from jobs.models import Attempt, Job
from jobs.states import TERMINAL, State
from tests import job_rows

pytestmark = pytest.mark.django_db


def _refused(job: Job, constraint: str, **change: Any) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**change)


def test_an_unknown_state_is_refused() -> None:
    _refused(job_rows.a_queued_job(), "may not move", state="paused")


def test_a_live_job_has_no_end() -> None:
    _refused(job_rows.a_queued_job(), "job_finished_at_means_terminal", finished_at=Now())


def test_a_terminal_job_has_an_end() -> None:
    _refused(job_rows.a_queued_job(), "job_finished_at_means_terminal", state=State.CANCELLED, finished_at=None)


def test_only_a_running_job_holds_a_lease() -> None:
    _refused(job_rows.a_queued_job(), "job_lease_means_running", lease_until=Now())
    _refused(job_rows.a_queued_job(), "job_lease_means_running", hard_deadline=Now())


def test_a_running_job_always_holds_a_lease_and_a_hard_deadline() -> None:
    job, _ = job_rows.a_running_job(job_rows.a_node())
    _refused(job, "job_lease_means_running", lease_until=None)
    _refused(job, "job_lease_means_running", hard_deadline=None)


def test_an_ended_job_holds_no_lease() -> None:
    job, _ = job_rows.a_running_job(job_rows.a_node())
    _refused(job, "job_lease_means_running", state=State.FAILED, finished_at=Now())


def test_a_job_with_an_attempt_has_a_start() -> None:
    _refused(job_rows.a_queued_job(), "job_started_means_attempt", attempt=1)


def test_an_attempt_number_is_used_once_per_job() -> None:
    job, claim = job_rows.a_running_job(job_rows.a_node())
    with pytest.raises(IntegrityError, match="attempt_number_once"), transaction.atomic():
        Attempt.objects.create(job=job, number=claim.attempt, pid=1, process_started=1)


@pytest.mark.parametrize("state", [s for s in State if s is not State.QUEUED])
def test_a_job_is_born_queued(state: State) -> None:
    with pytest.raises(IntegrityError, match="begins as queued"), transaction.atomic():
        job_rows.a_queued_job(state=state.value, finished_at=Now() if state.terminal else None)


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize(
    "change",
    [
        *(
            "finished_at = now()",
            "finished_at = NULL",
            "attempt = 9",
            "error_code = 'other'",
            "error_message = 'other'",
        ),
        *("error_details = '{}'", "error_retryable = true", "stopped_by = 'attempts'"),
    ],
)
def test_how_a_job_ended_never_changes(state: State, change: str) -> None:
    job = job_rows.a_finished_job(state)
    before = job_rows.row(job.pk)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobs_job SET {change} WHERE id = %s", [job.pk])
    assert job_rows.row(job.pk) == before


def test_retention_may_empty_the_result_of_an_ended_job() -> None:
    job = job_rows.a_finished_job(result={"a": 1})
    Job.objects.filter(pk=job.pk).update(result=None, result_expired=True)
    assert job_rows.read(job.pk).result is None


def test_ids_are_version_7_and_sort_by_admission() -> None:
    jobs = [job_rows.a_queued_job() for _ in range(3)]
    assert {(job.pk.version, job.pk.variant) for job in jobs} == {(7, "specified in RFC 4122")}
    assert [job.sequence for job in jobs] == sorted({job.sequence for job in jobs})
    milliseconds = [job.pk.int >> 80 for job in jobs]
    assert milliseconds == sorted(milliseconds)
    assert abs(milliseconds[0] / 1000 - jobs[0].accepted_at.timestamp()) < 1
