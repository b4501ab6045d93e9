"""Claim, settle, cancel, expire, reap, renew: one caller at a time, and two that meet on one row."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import lifecycle, nodes, queries, telemetry
from jobs.lifecycle import Claim, Claimant, Lease, Outcome
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.second_connections import Elsewhere, begun_behind

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)

LOST = Outcome(State.FAILED, error_code="worker_lost")
FAILURE = Outcome(
    State.FAILED, error_code="handler_error", error_message="ValueError", detail="Traceback …", run_seconds=0.5
)


@pytest.fixture
def node(db: None) -> WorkerNode:
    return job_rows.a_node()


def _later(seconds: float) -> object:
    return Now() + timedelta(seconds=seconds)


# ── Claim (P13) ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_jobs_are_claimed_in_the_order_of_their_admission(node: WorkerNode) -> None:
    jobs = [job_rows.a_queued_job() for _ in range(4)]
    Job.objects.filter(pk=jobs[3].pk).update(accepted_at=_later(-60))  # a clock that was set back changes nothing
    claimed = [job_rows.claim(node) for _ in range(5)]
    assert [c and c.job_id for c in claimed] == [*(job.pk for job in jobs), None]


def test_a_claim_says_what_is_to_be_run(node: WorkerNode) -> None:
    job = job_rows.a_queued_job(params={"a": [1, None, "é"]}, request_id="r-1", timeout_seconds=7.5)
    Job.objects.filter(pk=job.pk).update(accepted_at=_later(-3), available_at=_later(-3))
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
    _requeue(job)
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
    job = job_rows.a_queued_job(available_at=_later(60))
    assert job_rows.claim(node) is None
    Job.objects.filter(pk=job.pk).update(available_at=Now())
    assert job_rows.claim(node) is not None


def test_a_job_past_its_start_by_is_not_started_and_one_before_it_is(node: WorkerNode) -> None:
    job_rows.a_queued_job(start_by=_later(-0.001))
    assert job_rows.claim(node) is None
    in_time = job_rows.a_queued_job(start_by=_later(60))
    claimed = job_rows.claim(node)
    assert claimed is not None and claimed.job_id == in_time.pk


def test_a_job_without_start_by_may_start_at_any_time(node: WorkerNode) -> None:
    job_rows.a_queued_job(start_by=None, accepted_at=_later(-86_400))
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
    _requeue(job, run_seconds=2.0, cpu_seconds=1.0, peak_rss_bytes=900)
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
    _requeue(job)
    second = job_rows.claim(node)
    assert second is not None and second.attempt == 2
    before, attempts, stale = job_rows.row(job.pk), _attempts(job), _stale_settles()
    assert job_rows.succeed(first) is None
    assert (job_rows.row(job.pk), _attempts(job), _stale_settles()) == (before, attempts, stale + 1)
    assert job_rows.succeed(second) is State.SUCCEEDED
    assert _stale_settles() == stale + 1


def test_a_queued_job_cannot_be_settled(node: WorkerNode) -> None:
    job, first = job_rows.a_running_job(node)
    _requeue(job)
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
    assert (job.cancel_requested_at, job.run_seconds) == (asked_at, outcome.run_seconds)
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
    late, early, unbounded = (job_rows.a_queued_job(start_by=at) for at in (_later(-0.001), _later(60), None))
    assert lifecycle.expire() == 1
    job = job_rows.read(late.pk)
    assert (job.state, job.error_code, job.attempt) == ("expired", "max_wait", 0)
    assert job.error_message and job.finished_at is not None
    assert {job_rows.read(j.pk).state for j in (early, unbounded)} == {"queued"}
    assert lifecycle.expire() == 0


def test_a_job_that_has_run_before_fails_when_its_time_is_up(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    _requeue(job, start_by=_later(-1))
    assert lifecycle.expire() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.attempt) == ("failed", "deadline", 1)


def test_a_running_job_does_not_expire(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node, start_by=_later(60))
    Job.objects.filter(pk=job.pk).update(start_by=_later(-1))
    assert lifecycle.expire() == 0


def test_one_job_can_be_expired_alone(db: None) -> None:
    mine, late = job_rows.a_queued_job(start_by=_later(-1)), job_rows.a_queued_job(start_by=_later(-1))
    early = job_rows.a_queued_job(start_by=_later(60))
    assert lifecycle.expire(early.pk) == 0
    assert lifecycle.expire(mine.pk) == 1
    assert (job_rows.read(mine.pk).state, job_rows.read(late.pk).state) == ("expired", "queued")


# ── Reap and renew (P16, P17) ────────────────────────────────────────────────────────────────────────────────────────


def test_only_a_job_whose_lease_is_over_is_reaped(node: WorkerNode) -> None:
    lost, _ = job_rows.a_running_job(node, max_deliveries=1)
    held, _ = job_rows.a_running_job(node, max_deliveries=1)
    Job.objects.filter(pk=lost.pk).update(lease_until=_later(-0.001))
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
        Job.objects.filter(pk=job.pk).update(lease_until=_later(-1))
        assert lifecycle.reap() == 1
        job.refresh_from_db()
        assert (job.state, job.lost, job.failures) == ("queued", lost, 0)
        assert job_rows.claim(node) is not None
    Job.objects.filter(pk=job.pk).update(lease_until=_later(-1))
    assert lifecycle.reap() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.lost) == ("failed", "poison", 3)
    assert lifecycle.reap() == 0


def test_a_reaped_job_whose_cancel_was_answered_ends_cancelled(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    lifecycle.cancel(job.pk)
    Job.objects.filter(pk=job.pk).update(lease_until=_later(-1))
    assert lifecycle.reap() == 1
    assert job_rows.read(job.pk).state == "cancelled"


def test_what_a_reaped_attempt_brings_later_changes_nothing(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    Job.objects.filter(pk=job.pk).update(lease_until=_later(-1))
    lifecycle.reap()
    before = job_rows.row(job.pk)
    assert job_rows.succeed(claimed) is None
    assert job_rows.row(job.pk) == before


def test_a_renewal_extends_the_leases_it_names_and_says_how_many(node: WorkerNode) -> None:
    running = [job_rows.a_running_job(node)[1] for _ in range(3)]
    Job.objects.update(lease_until=_later(1))
    assert lifecycle.renew(node.pk, [_lease(claimed) for claimed in running[:2]], 600) == 2
    assert Job.objects.filter(lease_until__gt=_later(590)).count() == 2


def test_a_lost_lease_is_not_renewed(node: WorkerNode) -> None:
    """Another node, an older attempt, an ended job: none is extended."""
    job, claimed = job_rows.a_running_job(node)
    assert lifecycle.renew(job_rows.a_node().pk, [_lease(claimed)], 600) == 0
    _requeue(job)
    assert lifecycle.renew(node.pk, [_lease(claimed)], 600) == 0
    second = job_rows.claim(node)
    assert second is not None
    assert lifecycle.renew(node.pk, [_lease(claimed)], 600) == 0
    assert lifecycle.renew(node.pk, [_lease(second)], 600) == 1
    job_rows.succeed(second)
    assert lifecycle.renew(node.pk, [_lease(second)], 600) == 0


def test_a_node_reads_back_what_it_runs(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node, timeout_seconds=50.0)
    job_rows.a_running_job(job_rows.a_node())
    (lease,) = queries.leases_of(node.pk)
    assert (lease.job_id, lease.attempt, lease.pid) == (job.pk, claimed.attempt, job.pid)
    assert (lease.token, lease.process_started) == (claimed.token, job.process_started)
    assert (lease.type, lease.cost_class, lease.failures, lease.max_attempts) == (job_rows.TYPE, "light", 0, 1)
    assert (lease.remaining_seconds, lease.cancel_requested) == (None, False)
    assert 50 < lease.hard_seconds <= 50 + job_rows.GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS


def test_a_node_reads_of_a_lease_its_deadline_and_its_cancel(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node, timeout_seconds=50.0, deadline_at=_later(20), max_attempts=4)
    Job.objects.filter(pk=job.pk).update(failures=2)
    lifecycle.cancel(job.pk)
    (lease,) = queries.leases_of(node.pk)
    assert lease.remaining_seconds is not None
    assert 10 < lease.remaining_seconds <= 20
    assert 20 < lease.hard_seconds <= 20 + job_rows.GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS
    assert (lease.failures, lease.max_attempts, lease.cancel_requested) == (2, 4, True)


# ── Progress ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_stored_for_the_attempt_that_runs_and_no_other(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    lifecycle.report_progress(connection, job.pk, claimed.attempt, 0.25, "a quarter")
    lifecycle.report_progress(connection, job.pk, claimed.attempt + 1, 0.75, "stale")
    job.refresh_from_db()
    assert (job.progress_fraction, job.progress_note) == (0.25, "a quarter")
    job_rows.succeed(claimed)
    lifecycle.report_progress(connection, job.pk, claimed.attempt, 0.9, "late")
    assert job_rows.read(job.pk).progress_fraction == 0.25


@two_connections
def test_progress_leaves_a_row_that_another_holds(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=job.pk)
        other.run(lambda: lifecycle.report_progress(connection, job.pk, claimed.attempt, 0.5, "not now"))
    assert job_rows.read(job.pk).progress_fraction is None
    other.run(lambda: lifecycle.report_progress(connection, job.pk, claimed.attempt, 0.5, "now"))
    assert job_rows.read(job.pk).progress_fraction == 0.5


# ── Two that meet on one row: the order is forced, the second is seen to wait for the first ──────────────────────────


@two_connections
def test_a_cancel_that_waits_for_a_claim_finds_a_running_job(other: Elsewhere) -> None:
    node, job = job_rows.a_node(), job_rows.a_queued_job()
    cancelling = begun_behind(lambda: job_rows.claim(node), other, lambda: lifecycle.cancel(job.pk))
    assert cancelling.result(10) is State.RUNNING
    job.refresh_from_db()
    assert (job.state, job.finished_at) == ("running", None)
    assert job.cancel_requested_at is not None


@two_connections
def test_a_claim_leaves_a_job_that_is_being_cancelled(other: Elsewhere) -> None:
    node, job = job_rows.a_node(), job_rows.a_queued_job()
    with transaction.atomic():
        lifecycle.cancel(job.pk)
        assert other.run(lambda: job_rows.claim(node)) is None
    assert other.run(lambda: job_rows.claim(node)) is None
    assert job_rows.read(job.pk).state == "cancelled"


@two_connections
def test_a_cancel_that_waits_for_a_settle_comes_too_late(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    cancelling = begun_behind(lambda: job_rows.succeed(claimed, 1), other, lambda: lifecycle.cancel(job.pk))
    assert cancelling.result(10) is None
    job.refresh_from_db()
    assert (job.state, job.result, job.cancel_requested_at) == ("succeeded", 1, None)


@two_connections
def test_a_settle_that_waits_for_a_cancel_ends_cancelled(other: Elsewhere) -> None:
    """P20: the 202 was given first."""
    job, claimed = job_rows.a_running_job(job_rows.a_node())
    settling = begun_behind(lambda: lifecycle.cancel(job.pk), other, lambda: job_rows.succeed(claimed, 1))
    assert settling.result(10) is State.CANCELLED
    job.refresh_from_db()
    assert (job.state, job.result) == ("cancelled", None)
    assert Attempt.objects.get(job=job).outcome == "cancelled"


@two_connections
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


@two_connections
def test_a_settle_that_waits_for_the_reaper_is_stale(other: Elsewhere) -> None:
    job, claimed = job_rows.a_running_job(job_rows.a_node(), max_deliveries=1)
    Job.objects.update(lease_until=_later(-1))
    late = begun_behind(lifecycle.reap, other, lambda: job_rows.succeed(claimed))
    assert late.result(10) is None
    assert job_rows.read(job.pk).error_code == "worker_lost"


@two_connections
def test_the_reaper_spares_a_lease_that_is_being_renewed(other: Elsewhere) -> None:
    """P17: it looks at the row again once the renewal has committed."""
    node = job_rows.a_node()
    job, claimed = job_rows.a_running_job(node)
    Job.objects.update(lease_until=_later(-1))
    reaping = begun_behind(lambda: lifecycle.renew(node.pk, [_lease(claimed)], 30), other, lifecycle.reap)
    assert reaping.result(10) == 0
    assert job_rows.read(job.pk).state == "running"


@two_connections
@pytest.mark.parametrize("meanwhile", ["cancel", "lock"])
def test_expire_leaves_a_row_that_another_holds(other: Elsewhere, meanwhile: str) -> None:
    job = job_rows.a_queued_job(start_by=_later(-1))
    holds: dict[str, Callable[[], object]] = {
        "cancel": lambda: lifecycle.cancel(job.pk),
        "lock": lambda: Job.objects.select_for_update().get(pk=job.pk),
    }
    with transaction.atomic():
        holds[meanwhile]()
        assert other.run(lifecycle.expire) == 0
    assert other.run(lifecycle.expire) == (0 if meanwhile == "cancel" else 1)
    assert job_rows.read(job.pk).state == ("cancelled" if meanwhile == "cancel" else "expired")


# ── Helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _requeue(job: Job, **fields: object) -> None:
    """running → queued, as a retry or a release will do it."""
    Job.objects.filter(pk=job.pk).update(
        **{"state": State.QUEUED, "lease_until": None, "hard_deadline": None, "node": None, **fields}
    )


def _same_moment(one: datetime | None, other: datetime | None) -> bool:
    """Each is the clock's at its own point of one statement."""
    assert one is not None and other is not None
    return abs(one - other) < timedelta(seconds=0.5)


def _lease(claimed: Claim) -> Lease:
    return job_rows.a_lease(claimed.job_id, claimed.attempt)


def _attempts(job: Job) -> list[dict[str, object]]:
    return [dict(attempt) for attempt in Attempt.objects.filter(job=job).order_by("number").values()]


def _stale_settles() -> float:
    return float(telemetry.STALE_SETTLES._value.get())
