"""One attempt as a wake-up begins it: what is claimed, what its handler sees, and what its end stores (P18, P20)."""

import os
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import leases, lifecycle, registry, tally
from jobs.models import Attempt, ClassMinute, Job, WorkerNode
from jobs.registry import JobType
from tests import job_rows
from tests.integration.attempts import Params
from tests.job_rows import TYPE
from tests.second_connections import Elsewhere
from workers import runner
from workers.context import JobContext

# The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]


def test_a_handler_gets_its_params_and_its_return_value_is_the_result(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: {"twice": ctx.params.n * 2, "attempt": ctx.attempt, "id": str(ctx.job_id)}, params={"n": 21})
    assert (job.state, job.result) == ("succeeded", {"twice": 42, "attempt": 1, "id": str(job.pk)})
    assert job.run_seconds is not None and job.run_seconds >= 0
    assert job.cpu_seconds is not None and job.peak_rss_bytes is not None


def test_nothing_to_claim_is_a_no_op(played_node: WorkerNode) -> None:
    runner.run_next("light", lambda claim: pytest.fail("there was no job"))


def test_a_claim_is_announced_before_its_handler_runs(run: Callable[..., Job], played_node: WorkerNode) -> None:
    order: list[str] = []
    registry._types[TYPE] = JobType(TYPE, lambda ctx: order.append("handler"), Params, "light")
    job_rows.a_queued_job()
    runner.run_next("light", lambda claim: order.append("announced"))
    assert order == ["announced", "handler"]


def test_a_job_whose_type_this_worker_never_heard_of_is_not_claimed(played_node: WorkerNode) -> None:
    job = job_rows.a_queued_job(type="tests.foreign")
    runner.run_next("light", lambda claim: None)
    assert job_rows.read(job.pk).state == "queued"


def test_a_wake_up_for_a_job_that_was_cancelled_runs_nothing(run: Callable[..., Job], played_node: WorkerNode) -> None:
    registry._types[TYPE] = JobType(TYPE, lambda ctx: pytest.fail("it was cancelled"), Params, "light")
    job = job_rows.a_queued_job()
    lifecycle.cancel(job.pk)
    runner.run_next("light", lambda claim: None)
    assert not Attempt.objects.exists()


def test_a_result_that_comes_after_the_lease_was_lost_changes_nothing(run: Callable[..., Job]) -> None:
    """P18: reaped meanwhile."""

    def handler(ctx: JobContext[Any]) -> str:
        Job.objects.update(lease_until="2000-01-01T00:00:00Z")
        assert lifecycle.reap() == 1
        return "late"

    job = run(handler, max_deliveries=1)
    assert (job.state, job.error_code, job.result) == ("failed", "worker_lost", None)


def test_a_cancel_during_the_handler_drops_its_result(run: Callable[..., Job]) -> None:
    """P20."""
    job = run(lambda ctx: lifecycle.cancel(ctx.job_id))
    assert (job.state, job.result, job.error_code) == ("cancelled", None, "")


def test_a_handler_sees_its_jobs_limit_run_down(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: ctx.remaining(), timeout_seconds=25.0)
    assert isinstance(job.result, float)
    assert 20 < job.result <= 25


def test_the_time_that_a_claim_was_under_way_is_taken_off_the_limit(
    run: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: three of ten seconds; the clock is read before the claim is sent and when it has come."""
    readings = iter([100.0, 103.0])
    clock = SimpleNamespace(monotonic=lambda: next(readings, 103.0))
    monkeypatch.setattr(runner, "time", clock)
    job = run(lambda ctx: ctx.remaining(), timeout_seconds=10.0)
    assert job.result is not None
    assert 0 < job.result <= 7


def test_the_time_that_an_announcement_took_is_taken_off_what_remains(
    run: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit runs by then: a handler must not be told of more time than it gets."""
    now = [100.0]
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: now[0]))
    job = run(lambda ctx: ctx.remaining(), lambda claim: now.append(now.pop() + 4), timeout_seconds=10.0)
    assert job.result is not None
    assert 0 < job.result <= 6


def test_progress_is_written_where_callers_read_it(run: Callable[..., Job]) -> None:
    def handler(ctx: JobContext[Any]) -> list[object]:
        ctx.progress(0.25, "a quarter\0")
        seen = job_rows.read(ctx.job_id)
        return [seen.progress_fraction, seen.progress_note]

    assert run(handler).result == [0.25, "a quarter\\x00"]


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_the_last_progress_of_an_attempt_is_kept_however_soon_it_came(run: Callable[..., Job], ends: str) -> None:
    def handler(ctx: JobContext[Any]) -> None:
        for step in range(1, 5):
            ctx.progress(step / 4, f"step {step}")
        if ends == "badly":
            raise ValueError

    job = run(handler)
    assert (job.progress_fraction, job.progress_note) == (1.0, "step 4")


def test_progress_is_written_from_any_thread_of_the_handler(run: Callable[..., Job]) -> None:
    def handler(ctx: JobContext[Any]) -> list[float]:
        seen: list[float] = []
        for fraction in (0.25, 0.5):
            ctx._reported_at = None  # as if a second had passed
            thread = threading.Thread(target=ctx.progress, args=(fraction,))
            thread.start()
            thread.join()
            seen.append(job_rows.read(ctx.job_id).progress_fraction or 0)
        ctx._reported_at = None
        ctx.progress(0.75)
        return [*seen, job_rows.read(ctx.job_id).progress_fraction or 0]

    assert run(handler).result == [0.25, 0.5, 0.75]


def test_a_note_that_is_no_text_fails_no_job(run: Callable[..., Job]) -> None:
    note: Any = 7
    assert run(lambda ctx: ctx.progress(0.5, note)).state == "succeeded"


def test_progress_inside_a_handlers_transaction_holds_up_no_renewal(
    run: Callable[..., Job], played_node: WorkerNode, other: Elsewhere
) -> None:
    """The keeper renews from its main thread: a row that stays locked would stop its beats, and the node with them."""
    renewed: list[int] = []

    def renew() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '300ms'")  # instead of hanging, as the keeper would
        return leases.renew(played_node.pk, leases.of_node(played_node.pk), 30)

    def handler(ctx: JobContext[Any]) -> str:
        with transaction.atomic():
            ctx.progress(0.5)
            renewed.append(other.run(renew))
        return "done"

    assert run(handler).state == "succeeded"
    assert renewed == [1]


@pytest.mark.parametrize("leaves", ["by returning", "by an exception", "by sys.exit"])
def test_a_fork_that_leaves_the_handler_is_ended_there(run: Callable[..., Job], leaves: str) -> None:
    """It shares the connections and the limits of the process that it was forked from."""

    def handler(ctx: JobContext[Any]) -> int:
        Job.objects.exists()  # so that the handler's own connection is open
        fork = os.fork()
        if fork == 0:
            if leaves == "by returning":
                return -1
            raise ValueError if leaves == "by an exception" else SystemExit(7)
        _, status = os.waitpid(fork, 0)
        assert Job.objects.exists(), "the fork must not have closed it"
        return os.waitstatus_to_exitcode(status)

    job = run(handler, timeout_seconds=20.0)
    assert (job.state, job.result) == ("succeeded", 0)


def test_a_handler_that_submits_leaves_no_thread_of_ours_and_its_minute_is_written(run: Callable[..., Job]) -> None:
    before = threading.active_count()
    run(lambda ctx: tally.refused("light", "queue_full"))
    assert threading.active_count() == before
    assert [row.refused for row in ClassMinute.objects.all()] == [{"queue_full": 1}]


def test_an_attempt_runs_in_the_calling_thread(run: Callable[..., Job]) -> None:
    """Limits are signals, and signals reach the main thread only."""
    assert run(lambda ctx: threading.current_thread() is threading.main_thread()).result is True


def test_signals_are_listened_to_anew_for_each_attempt(run: Callable[..., Job]) -> None:
    def deaf(ctx: JobContext[Any]) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})

    run(deaf)
    job = run(lambda ctx: threading.Event().wait(20), timeout_seconds=0.2)
    assert (job.state, job.error_code) == ("failed", "timeout")
