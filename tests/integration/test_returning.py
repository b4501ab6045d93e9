"""Give back, release, lose: what becomes of an attempt that did not end its job (P8, P20, P25, P26)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import lifecycle, telemetry
from jobs.lifecycle import Claim, Outcome, Remains, attempts
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.second_connections import Elsewhere, begun_behind

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)

FAILURE = Outcome(
    State.FAILED,
    error_code="handler_error",
    error_message="ValueError",
    retryable=True,
    detail="Traceback …",
    log="it said",
    run_seconds=0.5,
    cpu_seconds=0.25,
    peak_rss_bytes=4096,
)
UNLEASED = {"lease_until": None, "hard_deadline": None, "node_id": None, "pid": None, "process_started": None}


def _retry(claimed: Claim, after_seconds: float = 0.0, outcome: Outcome = FAILURE) -> State | None:
    return lifecycle.retry(claimed.job_id, claimed.attempt, outcome, after_seconds)


def _release(claimed: Claim) -> State | None:
    return lifecycle.release(claimed.job_id, claimed.attempt)


def _lose(claimed: Claim, remains: Remains | None = None, **how: Any) -> State | None:
    return lifecycle.lose(claimed.job_id, claimed.attempt, remains, **how)


def _again(node: WorkerNode) -> Claim:
    claimed = job_rows.claim(node)
    assert claimed is not None
    return claimed


def _attempt(claimed: Claim) -> Attempt:
    return Attempt.objects.get(pk=claimed.token)


def _has_no_lease(job: Job) -> bool:
    return {name: getattr(job, name) for name in UNLEASED} == UNLEASED


# ── Give back (P25) ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_given_back_waits_for_its_backoff(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, start_by=job_rows.later(60))
    assert _retry(claimed, 25) is State.QUEUED
    job.refresh_from_db()
    attempt = _attempt(claimed)
    assert (job.state, job.failures, job.lost, job.attempt, job.finished_at) == ("queued", 1, 0, 1, None)
    assert attempt.finished_at is not None
    assert abs(job.available_at - attempt.finished_at - timedelta(seconds=25)) < timedelta(seconds=0.5)
    assert _has_no_lease(job)
    assert job_rows.claim(node) is None
    Job.objects.filter(pk=job.pk).update(available_at=Now())
    assert _again(node).attempt == 2


def test_an_attempt_that_is_tried_again_keeps_its_own_cause_log_and_usage(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    _retry(claimed)
    attempt = _attempt(claimed)
    assert (attempt.outcome, attempt.error_code, attempt.error_detail) == ("retried", "handler_error", "Traceback …")
    assert (attempt.log, attempt.run_seconds, attempt.cpu_seconds, attempt.peak_rss_bytes) == (
        "it said",
        0.5,
        0.25,
        4096,
    )
    job.refresh_from_db()
    assert (job.error_code, job.error_message, job.stopped_by, job.result) == ("", "", "", None)
    assert (job.run_seconds, job.cpu_seconds, job.peak_rss_bytes) == (0.5, 0.25, 4096)


@pytest.mark.parametrize("seconds", [None, 90.0])
def test_after_a_run_the_latest_start_is_the_deadline_or_there_is_none(node: WorkerNode, seconds: float | None) -> None:
    """P8: `max_wait` was for the first start."""
    deadline = None if seconds is None else job_rows.later(seconds)
    job, claimed = job_rows.a_running_job(node, start_by=job_rows.later(60), deadline_at=deadline)
    _retry(claimed, 5)
    job.refresh_from_db()
    assert job.start_by == job.deadline_at
    assert (job.deadline_at is None) is (seconds is None)


def test_what_an_attempt_showed_of_its_progress_goes_with_it(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    Job.objects.filter(pk=job.pk).update(progress_fraction=0.5, progress_note="half way")
    _retry(claimed)
    job.refresh_from_db()
    assert (job.progress_fraction, job.progress_note) == (None, "")


def test_failures_add_up_and_the_last_ends_the_job_with_its_cause(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node, max_attempts=2)
    _retry(first)
    second = _again(node)
    assert (second.failures, second.max_attempts) == (1, 2)
    last = Outcome(State.FAILED, error_code="no_route", error_message="None.", error_details=[7], stopped_by="attempts")
    assert lifecycle.settle(job.pk, second.attempt, last) is State.FAILED
    job.refresh_from_db()
    assert (job.state, job.failures, job.stopped_by) == ("failed", 2, "attempts")
    assert (job.error_code, job.error_message, job.error_details) == ("no_route", "None.", [7])
    assert [a.outcome for a in Attempt.objects.order_by("number")] == ["retried", "failed"]


def test_a_job_keeps_its_place_in_the_order_when_it_is_given_back(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    job_rows.a_queued_job()
    _retry(claimed)
    assert _again(node).job_id == job.pk


def test_a_job_whose_cancel_was_answered_is_not_given_back(node: WorkerNode) -> None:
    """P20."""
    job, claimed = job_rows.a_running_job(node)
    assert lifecycle.cancel(job.pk) is State.RUNNING
    assert _retry(claimed, 60) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.failures, job.error_code) == ("cancelled", 0, "")
    assert (_attempt(claimed).outcome, job.run_seconds) == ("cancelled", 0.5)
    assert _has_no_lease(job)


def test_a_stale_attempt_gives_nothing_back_and_is_counted(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node)
    _retry(first)
    second = _again(node)
    before, stale = job_rows.row(job.pk), telemetry.STALE_SETTLES._value.get()
    assert _retry(first) is None
    assert (job_rows.row(job.pk), telemetry.STALE_SETTLES._value.get()) == (before, stale + 1)
    job_rows.succeed(second)
    before = job_rows.row(job.pk)
    assert _retry(second) is None
    assert job_rows.row(job.pk) == before


def test_a_job_that_is_given_back_is_not_counted_as_finished(node: WorkerNode) -> None:
    counts = [telemetry.FINISHED.labels("light", outcome)._value for outcome in telemetry.OUTCOMES]
    before = [count.get() for count in counts]
    _retry(job_rows.a_running_job(node)[1])
    assert [count.get() for count in counts] == before


# ── Release (P26) ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_release_blames_nobody_and_may_be_claimed_at_once(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, max_attempts=1, max_deliveries=1)
    assert _release(claimed) is State.QUEUED
    job.refresh_from_db()
    assert (job.state, job.failures, job.lost, job.error_code, job.start_by) == ("queued", 0, 0, "", None)
    assert _has_no_lease(job)
    attempt = _attempt(claimed)
    assert (attempt.outcome, attempt.error_code) == ("released", "released")
    assert attempt.finished_at is not None and attempt.error_detail
    again = _again(node)
    assert (again.job_id, again.attempt, again.failures) == (job.pk, 2, 0)


def test_no_number_of_releases_ends_a_job(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, max_attempts=1, max_deliveries=1)
    for _ in range(5):
        assert _release(claimed) is State.QUEUED
        claimed = _again(node)
    job.refresh_from_db()
    assert (job.attempt, job.failures, job.lost) == (6, 0, 0)


def test_a_released_job_with_a_deadline_may_start_until_then(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, start_by=job_rows.later(5), deadline_at=job_rows.later(90))
    _release(claimed)
    job.refresh_from_db()
    assert job.deadline_at is not None and job.start_by == job.deadline_at


def test_a_released_job_whose_cancel_was_answered_ends_cancelled(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    lifecycle.cancel(job.pk)
    assert _release(claimed) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.error_code, job.failures) == ("cancelled", "", 0)


def test_an_attempt_that_has_settled_cannot_be_released(node: WorkerNode) -> None:
    """What has finished is not run again."""
    job, claimed = job_rows.a_running_job(node)
    job_rows.succeed(claimed, "kept")
    before = job_rows.row(job.pk)
    assert _release(claimed) is None
    assert job_rows.row(job.pk) == before


# ── Lose (P26) ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_attempt_is_followed_by_another_at_once(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, max_attempts=1)
    assert _lose(claimed, Remains("Its child ended.", "the last words")) is State.QUEUED
    job.refresh_from_db()
    assert (job.state, job.failures, job.lost, job.error_code, job.start_by) == ("queued", 0, 1, "", None)
    assert _has_no_lease(job)
    attempt = _attempt(claimed)
    assert (attempt.outcome, attempt.error_code) == ("lost", "worker_lost")
    assert (attempt.error_detail, attempt.log) == ("Its child ended.", "the last words")
    assert _again(node).attempt == 2


@pytest.mark.parametrize(("max_deliveries", "code"), [(1, "worker_lost"), (2, "poison"), (3, "poison")])
def test_a_job_that_is_lost_as_often_as_is_allowed_ends(node: WorkerNode, max_deliveries: int, code: str) -> None:
    """One that may be delivered once only is not called poison for it."""
    job, claimed = job_rows.a_running_job(node, max_deliveries=max_deliveries)
    for _ in range(max_deliveries - 1):
        assert _lose(claimed) is State.QUEUED
        claimed = _again(node)
    assert _lose(claimed) is State.FAILED
    job.refresh_from_db()
    assert (job.state, job.error_code, job.stopped_by) == ("failed", code, "attempts")
    assert (job.lost, job.attempt, job.failures) == (max_deliveries, max_deliveries, 0)
    assert job.error_message and not job.error_retryable and job.finished_at is not None
    assert _has_no_lease(job)
    assert set(Attempt.objects.values_list("outcome", flat=True)) == {"lost"}
    assert job_rows.claim(node) is None


def test_failures_and_releases_do_not_make_poison(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, max_attempts=9, max_deliveries=2)
    for leave in (_retry, _release, _retry, _release):
        assert leave(claimed) is State.QUEUED
        claimed = _again(node)
    assert _lose(claimed) is State.QUEUED
    job.refresh_from_db()
    assert (job.attempt, job.failures, job.lost) == (5, 2, 1)
    assert _lose(_again(node)) is State.FAILED
    assert job_rows.read(job.pk).error_code == "poison"


@pytest.mark.parametrize(("seconds", "state"), [(-0.001, "failed"), (60, "queued")])
def test_a_lost_job_is_not_started_again_past_its_deadline(node: WorkerNode, seconds: float, state: str) -> None:
    job, claimed = job_rows.a_running_job(node)
    Job.objects.filter(pk=job.pk).update(deadline_at=job_rows.later(seconds))
    assert _lose(claimed) == state
    job.refresh_from_db()
    assert (job.state, job.lost) == (state, 1)
    told = ("worker_lost", "no_time") if state == "failed" else ("", "")
    assert (job.error_code, job.stopped_by) == told
    assert job.start_by == (None if state == "failed" else job.deadline_at)


@pytest.mark.parametrize("max_deliveries", [1, 3])
def test_a_lost_job_whose_cancel_was_answered_ends_cancelled(node: WorkerNode, max_deliveries: int) -> None:
    job, claimed = job_rows.a_running_job(node, max_deliveries=max_deliveries)
    lifecycle.cancel(job.pk)
    assert _lose(claimed) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.error_code, job.stopped_by, job.lost) == ("cancelled", "", "", 1)
    assert _attempt(claimed).outcome == "lost"


@pytest.mark.parametrize(("lease_seconds", "state"), [(-0.001, State.QUEUED), (30, None)])
def test_of_a_lease_that_was_renewed_nothing_is_lost(
    node: WorkerNode, lease_seconds: float, state: State | None
) -> None:
    job, claimed = job_rows.a_running_job(node)
    Job.objects.filter(pk=job.pk).update(lease_until=job_rows.later(lease_seconds))
    before = job_rows.row(job.pk)
    assert _lose(claimed, overdue_only=True) is state
    assert (job_rows.row(job.pk) == before) is (state is None)


def test_a_renewed_lease_of_a_job_that_may_not_be_delivered_again_is_spared_too(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, max_deliveries=1)
    assert _lose(claimed, overdue_only=True) is None
    assert job_rows.read(job.pk).state == "running"
    assert _lose(claimed) is State.FAILED


def test_an_attempt_is_lost_once(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    assert _lose(claimed) is State.QUEUED
    before = job_rows.row(job.pk)
    assert _lose(claimed) is None
    assert job_rows.row(job.pk) == before
    second = _again(node)
    before = job_rows.row(job.pk)
    assert _lose(claimed) is None
    assert job_rows.row(job.pk) == before
    job_rows.succeed(second)
    before = job_rows.row(job.pk)
    assert _lose(second) is None
    assert job_rows.row(job.pk) == before


def test_an_attempt_of_a_job_that_is_gone_cannot_be_lost(node: WorkerNode) -> None:
    _, claimed = job_rows.a_running_job(node)
    Attempt.objects.all().delete()
    Job.objects.all().delete()
    assert _lose(claimed) is None


def test_a_lease_that_lapses_between_two_statements_does_not_end_a_job_that_may_be_delivered_again(
    node: WorkerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a reaper that was stopped for a while after its first look at the lease: renewed then, over now."""
    job, claimed = job_rows.a_running_job(node)
    run_statement = attempts._end

    def then_the_lease_is_over(statement: str, arguments: dict[str, Any]) -> Any:
        moved = run_statement(statement, arguments)
        Job.objects.filter(pk=job.pk, state="running").update(lease_until=job_rows.later(-1))
        return moved

    monkeypatch.setattr(attempts, "_end", then_the_lease_is_over)
    assert _lose(claimed, overdue_only=True) in {None, State.QUEUED}
    assert job_rows.read(job.pk).error_code == ""


# ── Two that meet on one row: the order is forced, the second is seen to wait for the first ──────────────────────────


@two_connections
@pytest.mark.parametrize("leave", [_retry, _release, _lose])
def test_whoever_waits_for_a_cancel_finds_that_it_was_answered(other: Elsewhere, leave: Any) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    leaving = begun_behind(lambda: lifecycle.cancel(job.pk), other, lambda: leave(claimed))
    assert leaving.result(10) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.error_code) == ("cancelled", "")


@two_connections
@pytest.mark.parametrize("leave", [_retry, _release, _lose])
def test_a_cancel_that_waits_for_a_return_ends_a_queued_job(other: Elsewhere, leave: Any) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    cancelling = begun_behind(lambda: leave(claimed), other, lambda: lifecycle.cancel(job.pk))
    assert cancelling.result(10) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("cancelled", 1)
    assert job.finished_at is not None


@two_connections
@pytest.mark.parametrize("first", [_retry, _release, _lose, job_rows.succeed])
@pytest.mark.parametrize("second", [_retry, _release, _lose, job_rows.succeed])
def test_of_two_that_end_an_attempt_the_first_stands(other: Elsewhere, first: Any, second: Any) -> None:
    """A keeper that gives its child up, the reaper, and the child itself."""
    job, claimed = job_rows.a_running_job(job_rows.a_node(), max_deliveries=1 if second is _lose else 3)
    late = begun_behind(lambda: first(claimed), other, lambda: second(claimed))
    assert late.result(10) is None
    job.refresh_from_db()
    assert (job.failures, job.lost) == (int(first is _retry), int(first is _lose))
    assert _attempt(claimed).finished_at is not None
