"""Deadlines, from the door to the end: the earlier of two, the latest start, an attempt's limit (P8, P9, P13, P26)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from jobs import admission, lifecycle, telemetry
from jobs.admission import Admitted, Rejected
from jobs.lifecycle import Outcome
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.second_connections import Elsewhere, class_locked, waits_for_a_lock
from tests.submissions import a_submission, submit, verdict
from tests.waiting import eventually

pytestmark = pytest.mark.django_db

FAILURE = Outcome(State.FAILED, error_code="handler_error")


def _now() -> datetime:
    """By the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
        return now


def _admitted(**fields: Any) -> Job:
    answer = submit(**fields)
    assert isinstance(answer, Admitted)
    return answer.job


# ── At the door (P8, P9) ─────────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_deadline_there_is_none() -> None:
    job = _admitted(max_wait_seconds=60)
    assert job.deadline_at is None
    assert job_rows.read(job.pk).deadline_at is None


def test_a_relative_deadline_counts_from_the_submit() -> None:
    before = _now()
    job = _admitted(deadline_in_seconds=90.5)
    assert job.deadline_at is not None
    assert before + timedelta(seconds=90.5) <= job.deadline_at <= job.accepted_at + timedelta(seconds=90.5)


def test_an_absolute_deadline_is_kept_to_the_microsecond() -> None:
    deadline = datetime(2100, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)
    job = _admitted(deadline_at=deadline)
    assert job.deadline_at == job_rows.read(job.pk).deadline_at == deadline


@pytest.mark.parametrize(("relative", "absolute"), [(50, 100), (100, 50)])
def test_of_two_deadlines_the_earlier_counts(relative: float, absolute: float) -> None:
    began = _now()
    job = _admitted(deadline_in_seconds=relative, deadline_at=began + timedelta(seconds=absolute))
    assert job.deadline_at is not None
    assert timedelta(seconds=50) <= job.deadline_at - began < timedelta(seconds=60)


@pytest.mark.parametrize(("deadline", "max_wait"), [(30, 60), (60, 30)])
def test_the_latest_start_is_the_earlier_of_the_longest_wait_and_the_deadline(deadline: float, max_wait: float) -> None:
    job = _admitted(deadline_in_seconds=deadline, max_wait_seconds=max_wait)
    assert job.deadline_at is not None
    assert job.start_by == min(job.deadline_at, job.accepted_at + timedelta(seconds=max_wait))
    assert (job.start_by == job.deadline_at) is (deadline < max_wait)
    assert job_rows.read(job.pk).start_by == job.start_by


def test_an_admitted_deadline_is_stored_as_it_was_answered(node: WorkerNode) -> None:
    job = _admitted(deadline_in_seconds=90, max_attempts=4, max_deliveries=2)
    stored = job_rows.row(job.pk)
    places = {"sequence", "rank", "turn", "flow_rank", "own_order", "estimated_start_at"}
    told = {name: value for name, value in vars(job).items() if name in stored and name not in places}
    assert {name: stored[name] for name in told} == told
    assert (stored["max_attempts"], stored["max_deliveries"], stored["lost"]) == (4, 2, 0)


PAST: list[dict[str, Any]] = [
    {"deadline_in_seconds": 0.0},
    {"deadline_in_seconds": -1.0},
    {"deadline_at": datetime(2000, 1, 1, tzinfo=UTC)},
    {"deadline_in_seconds": 60.0, "deadline_at": datetime(2000, 1, 1, tzinfo=UTC)},
    {"deadline_in_seconds": 0.0, "deadline_at": datetime(2100, 1, 1, tzinfo=UTC)},
]


@pytest.mark.parametrize("past", PAST)
def test_a_deadline_that_has_passed_is_infeasible(node: WorkerNode, past: dict[str, Any]) -> None:
    counter = telemetry.REJECTED.labels("light", "deadline_infeasible")._value
    before = counter.get()
    assert verdict(submit(**past)) == "deadline_infeasible"
    assert not Job.objects.exists()
    assert counter.get() == before + 1


@pytest.mark.django_db(transaction=True)
def test_an_infeasible_deadline_takes_no_lock_and_writes_nothing(other: Elsewhere) -> None:
    asked = a_submission(deadline_in_seconds=0.0)
    with class_locked("light", by=other), transaction.atomic(), connection.cursor() as cursor:
        assert verdict(admission.submit(asked)) == "deadline_infeasible"
        cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
        assert cursor.fetchone()[0] is None


def test_a_deadline_is_looked_at_before_the_room() -> None:
    """P7: to come back later would not help."""
    job_rows.a_queued_job()
    assert verdict(submit(1)) == "queue_full"
    assert verdict(submit(1, deadline_in_seconds=0.0)) == "deadline_infeasible"


def test_a_deadline_still_to_come_does_not_refuse_at_the_door(node: WorkerNode) -> None:
    """P9: nothing is estimated."""
    assert verdict(submit(deadline_in_seconds=0.5, timeout_seconds=60.0)) == "admitted"


@pytest.mark.django_db(transaction=True)
def test_a_deadline_that_passes_in_the_wait_for_the_lock_is_infeasible(other: Elsewhere) -> None:
    """Else a job would be accepted that nobody may start."""
    asked = a_submission(deadline_in_seconds=0.3)
    pid = other.backend_pid()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:light', 0))")
        waiting = other.start(lambda: admission.submit(asked))
        eventually(lambda: waits_for_a_lock(pid), every_seconds=0.01)
        over = _now() + timedelta(seconds=0.3)  # later than its deadline, which counts from before the wait
        eventually(lambda: _now() > over, every_seconds=0.01)
    answer = waiting.result(10)
    assert isinstance(answer, Rejected)
    assert answer.reason == "deadline_infeasible"
    assert not Job.objects.exists()


# ── A claim (P13) ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("timeout", "deadline", "limit"),
    [(10.0, None, 10), (10.0, 60, 10), (60.0, 20, 20)],
    ids=["none", "later", "sooner"],
)
def test_an_attempt_may_run_for_its_timeout_or_to_its_deadline(
    node: WorkerNode, timeout: float, deadline: float | None, limit: float
) -> None:
    at = None if deadline is None else job_rows.later(deadline)
    job, claimed = job_rows.a_running_job(node, timeout_seconds=timeout, deadline_at=at)
    assert limit - 5 < claimed.limit_seconds <= limit
    if deadline is None:
        assert claimed.remaining_seconds is None
    else:
        assert claimed.remaining_seconds is not None
        assert deadline - 5 < claimed.remaining_seconds <= deadline
    assert (claimed.limit_seconds == claimed.remaining_seconds) is (limit == deadline)
    assert job.started_at is not None and job.hard_deadline is not None
    kill_after = timedelta(seconds=job_rows.GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS)
    limit_over = job.deadline_at if limit == deadline else job.started_at + timedelta(seconds=timeout)
    assert limit_over is not None
    assert abs(job.hard_deadline - limit_over - kill_after) < timedelta(seconds=0.5)


def test_a_second_attempt_has_only_what_is_left_to_the_deadline(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node, timeout_seconds=60.0, deadline_at=job_rows.later(100))
    assert first.limit_seconds == 60
    lifecycle.retry(job.pk, first.attempt, FAILURE, 0)
    Job.objects.filter(pk=job.pk).update(deadline_at=F("deadline_at") - timedelta(seconds=70), start_by=None)
    second = job_rows.claim(node)
    assert second is not None
    assert 20 < second.limit_seconds <= 30
    assert second.limit_seconds == second.remaining_seconds


def test_an_attempts_wait_counts_from_when_it_could_start(node: WorkerNode) -> None:
    """The first from acceptance, a later one from the end of its backoff: nobody waited in vain before that."""
    job = job_rows.a_queued_job()
    Job.objects.filter(pk=job.pk).update(accepted_at=job_rows.later(-100), available_at=job_rows.later(-100))
    first = job_rows.claim(node)
    assert first is not None
    lifecycle.retry(job.pk, first.attempt, FAILURE, 50)
    Job.objects.filter(pk=job.pk).update(available_at=job_rows.later(-3))
    second = job_rows.claim(node)
    assert second is not None
    assert 100 <= first.wait_seconds < 150
    assert 3 <= second.wait_seconds < 50
    stored = Attempt.objects.order_by("number").values_list("wait_seconds", flat=True)
    assert list(stored) == [first.wait_seconds, second.wait_seconds]


# ── Its end, while it waits (P26) ────────────────────────────────────────────────────────────────────────────────────


def _days_pass(job: Job, seconds: float) -> None:
    """As if it had been accepted that much earlier."""
    by = timedelta(seconds=seconds)
    Job.objects.filter(pk=job.pk).update(
        accepted_at=F("accepted_at") - by, start_by=F("start_by") - by, deadline_at=F("deadline_at") - by
    )


@pytest.mark.parametrize(
    ("deadline", "max_wait", "code"), [(30, 60, "deadline"), (60, 30, "max_wait"), (None, 30, "max_wait")]
)
def test_a_job_that_never_ran_expires_for_whichever_came_first(
    node: WorkerNode, deadline: float | None, max_wait: float, code: str
) -> None:
    job = _admitted(deadline_in_seconds=deadline, max_wait_seconds=max_wait)
    _days_pass(job, 25)
    assert lifecycle.expire() == 0
    _days_pass(job, 10)
    assert job_rows.claim(node) is None
    assert lifecycle.expire() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.stopped_by, job.attempt) == ("expired", code, "", 0)
    assert ("deadline" in job.error_message) is (code == "deadline")


def test_a_job_in_backoff_fails_when_its_deadline_passes(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, deadline_at=job_rows.later(100))
    lifecycle.retry(job.pk, claimed.attempt, FAILURE, 60)
    assert lifecycle.expire() == 0
    _days_pass(job, 101)
    assert lifecycle.expire() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.stopped_by) == ("failed", "deadline", "no_time")
    assert (job.attempt, job.failures) == (1, 1)
    assert "deadline" in job.error_message and job.finished_at is not None
    assert Attempt.objects.get(job=job).outcome == "retried"


def test_a_job_in_backoff_without_a_deadline_never_expires(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, start_by=job_rows.later(100))
    lifecycle.retry(job.pk, claimed.attempt, FAILURE, 60)
    _days_pass(job, 10**7)
    assert lifecycle.expire() == 0
    assert job_rows.read(job.pk).state == "queued"


def test_a_released_job_fails_too_when_its_deadline_passes(node: WorkerNode) -> None:
    """It has run before."""
    job, claimed = job_rows.a_running_job(node, deadline_at=job_rows.later(100))
    lifecycle.release(job.pk, claimed.attempt)
    _days_pass(job, 101)
    assert job_rows.claim(node) is None
    assert lifecycle.expire() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.failures) == ("failed", "deadline", 0)
