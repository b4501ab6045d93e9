"""Settle, cancel, expire, reap: one caller at a time."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from jobs import lifecycle, telemetry
from jobs.lifecycle import Outcome
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows

pytestmark = pytest.mark.django_db

LOST = Outcome(State.FAILED, error_code="worker_lost")
FAILURE = Outcome(
    State.FAILED, error_code="handler_error", error_message="ValueError", detail="Traceback …", run_seconds=0.5
)


# ── Settle (P18, P20, P36) ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_success_is_stored_with_its_result_and_its_usage(node: WorkerNode) -> None:
    _, claimed = job_rows.a_running_job(node)
    outcome = Outcome(State.SUCCEEDED, {"a": 1}, run_seconds=1.5, cpu_seconds=0.5, peak_rss_bytes=2**40)
    assert lifecycle.settle(claimed.job_id, claimed.attempt, outcome) is State.SUCCEEDED
    job = job_rows.read(claimed.job_id)
    assert (job.state, job.result, job.error_code, job.failures) == ("succeeded", {"a": 1}, "", 0)
    assert (job.run_seconds, job.cpu_seconds, job.peak_rss_bytes) == (1.5, 0.5, 2**40)
    assert (job.lease_until, job.hard_deadline, job.node_id, job.pid, job.process_started) == (None,) * 5
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.run_seconds) == ("succeeded", 1.5)
    assert _same_moment(attempt.finished_at, job.finished_at)
    assert attempt.node_id == node.pk  # who ran it stays on record


def test_a_failure_is_stored_with_its_cause_and_its_detail_only_on_the_attempt(node: WorkerNode) -> None:
    _, claimed = job_rows.a_running_job(node)
    assert lifecycle.settle(claimed.job_id, claimed.attempt, FAILURE) is State.FAILED
    job = job_rows.read(claimed.job_id)
    assert (job.state, job.error_code, job.error_message, job.failures) == ("failed", "handler_error", "ValueError", 1)
    assert job.result is None
    assert "Traceback" not in str(job_rows.row(job.pk))
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.error_code, attempt.error_detail) == ("failed", "handler_error", "Traceback …")


def test_time_and_memory_add_up_over_the_attempts(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    job_rows.requeue(job, run_seconds=2.0, cpu_seconds=1.0, peak_rss_bytes=900)
    second = job_rows.claim(node)
    assert second is not None
    used = Outcome(State.SUCCEEDED, None, run_seconds=0.5, cpu_seconds=0.25, peak_rss_bytes=100)
    lifecycle.settle(job.pk, second.attempt, used)
    job.refresh_from_db()
    assert (job.run_seconds, job.cpu_seconds, job.peak_rss_bytes) == (2.5, 1.25, 900)


@pytest.mark.parametrize("result", [None, False, 0, "", [], {}])
def test_an_empty_result_is_kept_as_it_was(node: WorkerNode, result: object) -> None:
    _, claimed = job_rows.a_running_job(node)
    job_rows.succeed(claimed, result)
    kept = job_rows.read(claimed.job_id).result
    assert (type(kept), kept) == (type(result), result)


def test_a_stale_attempt_changes_nothing_and_is_counted(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node)
    job_rows.requeue(job)
    second = job_rows.claim(node)
    assert second is not None and second.attempt == 2
    before, attempts, stale = job_rows.row(job.pk), _attempts(job), _stale_settles()
    assert job_rows.succeed(first) is None
    assert (job_rows.row(job.pk), _attempts(job), _stale_settles()) == (before, attempts, stale + 1)
    assert job_rows.succeed(second) is State.SUCCEEDED
    assert _stale_settles() == stale + 1


def test_a_queued_job_cannot_be_settled(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node)
    job_rows.requeue(job)
    before = job_rows.row(job.pk)
    assert job_rows.succeed(first) is None
    assert job_rows.row(job.pk) == before


def test_a_second_settle_of_the_same_attempt_changes_nothing(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    assert job_rows.succeed(claimed, "first") is State.SUCCEEDED
    before, attempts, stale = job_rows.row(job.pk), _attempts(job), _stale_settles()
    assert lifecycle.settle(job.pk, claimed.attempt, FAILURE) is None
    assert job_rows.succeed(claimed, "second") is None
    assert (job_rows.row(job.pk), _attempts(job), _stale_settles()) == (before, attempts, stale + 2)


@pytest.mark.parametrize("outcome", [Outcome(State.SUCCEEDED, {"secret": 1}, run_seconds=1), FAILURE, LOST])
def test_after_a_cancel_the_only_end_is_cancelled_and_the_result_is_dropped(node: WorkerNode, outcome: Outcome) -> None:
    """P20: success, failure and loss alike."""
    job, claimed = job_rows.a_running_job(node)
    assert lifecycle.cancel(job.pk)
    asked_at = job_rows.read(job.pk).cancel_requested_at
    assert lifecycle.settle(job.pk, claimed.attempt, outcome) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.result, job.error_code, job.error_message, job.failures) == ("cancelled", None, "", "", 0)
    assert job.cancel_requested_at == asked_at
    assert job.run_seconds == outcome.run_seconds or outcome.run_seconds is None  # then it is the database's measure
    assert Attempt.objects.get(job=job).outcome == "cancelled"


def test_an_end_is_counted_by_class_and_outcome(node: WorkerNode) -> None:
    counter = telemetry.FINISHED.labels("light", "succeeded")._value
    before = counter.get()
    _, claimed = job_rows.a_running_job(node)
    job_rows.succeed(claimed)
    job_rows.succeed(claimed)
    assert counter.get() == before + 1


# ── Cancel (P20) ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_queued_job_is_cancelled_at_once_and_never_claimed(node: WorkerNode) -> None:
    job = job_rows.a_queued_job()
    assert lifecycle.cancel(job.pk) is State.CANCELLED
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert job.finished_at is not None and job.cancel_requested_at is not None
    assert job_rows.claim(node) is None
    assert not Attempt.objects.exists()


def test_a_running_job_is_asked_to_end_and_keeps_the_first_instant(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    assert lifecycle.cancel(job.pk) is State.RUNNING
    first = job_rows.row(job.pk)
    assert (first["state"], first["finished_at"]) == ("running", None)
    assert first["cancel_requested_at"] is not None
    assert lifecycle.cancel(job.pk) is State.RUNNING
    assert job_rows.row(job.pk) == first


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED])
def test_an_ended_job_cannot_be_cancelled(db: None, state: State) -> None:
    job = job_rows.a_finished_job(state)
    before = job_rows.row(job.pk)
    assert lifecycle.cancel(job.pk) is None
    assert job_rows.row(job.pk) == before


def test_a_job_that_is_not_there_cannot_be_cancelled(db: None) -> None:
    assert lifecycle.cancel(uuid4()) is None


# ── Expire (P2, P26) ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_never_ran_expires_and_one_before_its_time_stays(db: None) -> None:
    late, early, unbounded = (
        job_rows.a_queued_job(start_by=at) for at in (job_rows.later(-0.001), job_rows.later(60), None)
    )
    assert lifecycle.expire() == 1
    job = job_rows.read(late.pk)
    assert (job.state, job.error_code, job.attempt, job.error_retryable) == ("expired", "max_wait", 0, True)
    assert job.error_message and job.finished_at is not None
    assert {job_rows.read(j.pk).state for j in (early, unbounded)} == {"queued"}
    assert lifecycle.expire() == 0


def test_a_job_that_has_run_before_fails_when_its_time_is_up(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    job_rows.requeue(job, start_by=job_rows.later(-1))
    assert lifecycle.expire() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.attempt, job.error_retryable) == ("failed", "deadline", 1, False)


def test_a_running_job_does_not_expire(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node, start_by=job_rows.later(60))
    Job.objects.filter(pk=job.pk).update(start_by=job_rows.later(-1))
    assert lifecycle.expire() == 0


def test_one_job_can_be_expired_alone(db: None) -> None:
    mine, late = job_rows.a_queued_job(start_by=job_rows.later(-1)), job_rows.a_queued_job(start_by=job_rows.later(-1))
    early = job_rows.a_queued_job(start_by=job_rows.later(60))
    assert lifecycle.expire(early.pk) == 0
    assert lifecycle.expire(mine.pk) == 1
    assert (job_rows.read(mine.pk).state, job_rows.read(late.pk).state) == ("expired", "queued")


# ── Reap (P17) ────────────────────────────────────────────────────────────────────────────────────────


def test_only_a_job_whose_lease_is_over_is_reaped(node: WorkerNode) -> None:
    lost, _ = job_rows.a_running_job(node, max_deliveries=1)
    held, _ = job_rows.a_running_job(node, max_deliveries=1)
    Job.objects.filter(pk=lost.pk).update(lease_until=job_rows.later(-0.001))
    assert lifecycle.reap() == 1
    lost.refresh_from_db()
    assert (lost.state, lost.error_code, lost.failures, lost.lost) == ("failed", "worker_lost", 0, 1)
    assert lost.error_message
    assert job_rows.read(held.pk).state == "running"
    attempt = Attempt.objects.get(job=lost)
    assert (attempt.outcome, attempt.error_code) == ("lost", "worker_lost")
    assert _same_moment(attempt.finished_at, lost.finished_at)
    assert Attempt.objects.get(job=held).finished_at is None


def test_a_reaped_job_is_queued_again_if_it_may_be(node: WorkerNode) -> None:
    """P26: three deliveries by default, so two of them may be lost."""
    job, _ = job_rows.a_running_job(node)
    for lost in (1, 2):
        Job.objects.filter(pk=job.pk).update(lease_until=job_rows.later(-1))
        assert lifecycle.reap() == 1
        job.refresh_from_db()
        assert (job.state, job.lost, job.failures) == ("queued", lost, 0)
        assert job_rows.claim(node) is not None
    Job.objects.filter(pk=job.pk).update(lease_until=job_rows.later(-1))
    assert lifecycle.reap() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.lost) == ("failed", "poison", 3)
    assert lifecycle.reap() == 0


def test_a_reaped_job_whose_cancel_was_answered_ends_cancelled(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    lifecycle.cancel(job.pk)
    Job.objects.filter(pk=job.pk).update(lease_until=job_rows.later(-1))
    assert lifecycle.reap() == 1
    assert job_rows.read(job.pk).state == "cancelled"


def test_what_a_reaped_attempt_brings_later_changes_nothing(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    Job.objects.filter(pk=job.pk).update(lease_until=job_rows.later(-1))
    lifecycle.reap()
    before = job_rows.row(job.pk)
    assert job_rows.succeed(claimed) is None
    assert job_rows.row(job.pk) == before


# ── Helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _same_moment(one: datetime | None, other: datetime | None) -> bool:
    """Each is the clock's at its own point of one statement."""
    assert one is not None and other is not None
    return abs(one - other) < timedelta(seconds=0.5)


def _attempts(job: Job) -> list[dict[str, object]]:
    return [dict(attempt) for attempt in Attempt.objects.filter(job=job).order_by("number").values()]


def _stale_settles() -> float:
    return float(telemetry.STALE_SETTLES._value.get())
