"""One attempt, whatever its handler does: it ends in one stored outcome and the task returns (P18, P20, P21, P34)."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction
from pydantic import BaseModel, field_validator

from jobs import classes, leases, lifecycle, registry, telemetry, wakeups
from jobs.lifecycle import Claimant, Outcome
from jobs.models import ApiClient, Attempt, Job, WorkerNode
from jobs.registry import JobType
from jobs.states import State
from tests import job_rows
from tests.job_rows import TYPE
from tests.second_connections import Elsewhere, backend_pid
from workers import descendants, equipment, runner, settling, usage
from workers.budget import RetryBudget
from workers.context import JobContext
from workers.equipment import Equipment
from workers.failures import RetryLater
from workers.limits import CANCEL_SIGNAL, Limits
from workers.logbook import Logbook
from workers.slots import OwnSlot, SharedSlots

Handler = Callable[[JobContext[Any]], object]

# The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]


class Params(BaseModel):
    n: int = 0

    @field_validator("n")
    @classmethod
    def divides(cls, n: int) -> int:
        if n == 13:
            raise KeyError("a validator with a fault of its own")
        return n


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WorkerNode]:
    """The node whose child this process plays."""
    node = job_rows.a_node()
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, CANCEL_SIGNAL)}
    played = _equipment(node, tmp_path)
    monkeypatch.setattr(equipment, "mine", lambda: played)
    # This process has children and threads of its own, which are none of the job's.
    monkeypatch.setattr(descendants, "end_processes", lambda root: 0)
    monkeypatch.setattr(descendants, "threads_besides", lambda known: [])
    yield node
    for number, handler in before.items():
        signal.signal(number, handler)


def _equipment(node: WorkerNode, folder: Path) -> Equipment:
    slot = OwnSlot(SharedSlots.create(1))
    traces = os.open(folder / "trace", os.O_RDWR | os.O_CREAT)
    return Equipment(
        claimant=Claimant(node.pk, *usage.myself()),
        slot=slot,
        limits=Limits(slot, traces, grace_seconds=5),
        budget=RetryBudget.create(),
        logbook=Logbook(folder / "log"),
    )


@pytest.fixture
def run(node: WorkerNode) -> Iterator[Callable[..., Job]]:
    """run(handler, **fields of the job) runs one attempt of it, as a wake-up does; the job as it then is."""

    def run(handler: Handler, **fields: Any) -> Job:
        registry._types[TYPE] = JobType(TYPE, handler, Params, "light")
        job = job_rows.a_queued_job(**fields)
        runner.run_next("light", lambda claim: None)
        return job_rows.read(job.pk)

    yield run
    registry._types.pop(TYPE, None)


def _detail(job: Job) -> str:
    return str(Attempt.objects.get(job=job).error_detail)


def _raise(error: BaseException) -> Handler:
    def handler(ctx: JobContext[Any]) -> None:
        raise error

    return handler


# ── The way it should go ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_gets_its_params_and_its_return_value_is_the_result(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: {"twice": ctx.params.n * 2, "attempt": ctx.attempt, "id": str(ctx.job_id)}, params={"n": 21})
    assert (job.state, job.result) == ("succeeded", {"twice": 42, "attempt": 1, "id": str(job.pk)})
    assert job.run_seconds is not None and job.run_seconds >= 0
    assert job.cpu_seconds is not None and job.peak_rss_bytes is not None


def test_nothing_to_claim_is_a_no_op(node: WorkerNode) -> None:
    runner.run_next("light", lambda claim: pytest.fail("there was no job"))


def test_a_claim_is_announced_before_its_handler_runs(run: Callable[..., Job], node: WorkerNode) -> None:
    order: list[str] = []
    registry._types[TYPE] = JobType(TYPE, lambda ctx: order.append("handler"), Params, "light")
    job_rows.a_queued_job()
    runner.run_next("light", lambda claim: order.append("announced"))
    assert order == ["announced", "handler"]


def test_a_job_whose_type_this_worker_never_heard_of_is_not_claimed(node: WorkerNode) -> None:
    job = job_rows.a_queued_job(type="tests.foreign")
    runner.run_next("light", lambda claim: None)
    assert job_rows.read(job.pk).state == "queued"


def test_a_wake_up_for_a_job_that_was_cancelled_runs_nothing(run: Callable[..., Job], node: WorkerNode) -> None:
    registry._types[TYPE] = JobType(TYPE, lambda ctx: pytest.fail("it was cancelled"), Params, "light")
    job = job_rows.a_queued_job()
    lifecycle.cancel(job.pk)
    runner.run_next("light", lambda claim: None)
    assert not Attempt.objects.exists()


# ── What a handler may throw (P21) ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(0),
        KeyboardInterrupt(),
        MemoryError(),
        GeneratorExit(),
        RecursionError(),
        BaseException("bare"),
        DatabaseError("not ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_the_jobs_failure(run: Callable[..., Job], error: BaseException) -> None:
    job = run(_raise(error))
    assert (job.state, job.error_code, job.error_message) == ("failed", "handler_error", type(error).__name__)
    assert job.failures == 1


def test_callers_see_the_name_of_an_exception_and_operators_its_text(run: Callable[..., Job]) -> None:
    job = run(_raise(ValueError("password=hunter2")))
    assert "hunter2" not in str(job_rows.row(job.pk))
    assert "hunter2" in _detail(job)
    assert "Traceback" in _detail(job)


def test_an_exception_that_cannot_even_be_printed_is_a_failure(run: Callable[..., Job]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert run(_raise(Mute())).error_code == "handler_error"


def test_a_nul_in_an_exceptions_text_does_not_hide_its_cause(run: Callable[..., Job]) -> None:
    job = run(_raise(ValueError("before\0after")))
    assert (job.state, job.error_code, job.error_message) == ("failed", "handler_error", "ValueError")
    assert "Traceback" in _detail(job)


def test_a_lone_surrogate_in_an_exceptions_text_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    """As in the name of a file that is not UTF-8."""
    job = run(_raise(ValueError("file \udcff")))
    assert (job.state, job.error_code) == ("failed", "handler_error")


def test_params_that_no_longer_fit_fail_before_the_handler(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: pytest.fail("never"), params={"n": "secret-word"})
    assert (job.state, job.error_code) == ("failed", "invalid_params")
    assert "secret-word" not in job.error_message
    assert "secret-word" not in _detail(job)


def test_a_params_model_with_a_fault_of_its_own_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: pytest.fail("never"), params={"n": 13})
    assert job.state == "failed"


# ── What a handler may return ────────────────────────────────────────────────────────────────────────────────────────


def _nested(depth: int, innermost: object = None) -> object:
    value = innermost
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1, 2},
        b"bytes",
        float("nan"),
        float("inf"),
        {"deep": [float("-inf")]},
        "\ud800",
        {"\udfff": 1},
        10**5000,
        _nested(100_000),
        "a\0b",
        {"\0": 1},
        {"deep": [{"x": "\0"}]},
        {(1, 2): 3},
    ],
    ids=[
        *("object", "set", "bytes", "nan", "inf", "inner inf", "surrogate", "surrogate key", "5001 digits"),
        *("100000 deep", "nul", "nul key", "inner nul", "tuple key"),
    ],
)
def test_a_result_that_cannot_be_stored_is_the_jobs_failure(run: Callable[..., Job], result: object) -> None:
    job = run(lambda ctx: result)
    assert (job.state, job.error_code, job.result) == ("failed", "bad_result", None)


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (10**4000, 10**4000),
        (-(2**70), -(2**70)),
        (1.5e300, 15 * 10**299),  # jsonb keeps the number, not the way it was written
        ("\\u0000", "\\u0000"),
        ("\U0001f600 é", "\U0001f600 é"),
        ((1, 2), [1, 2]),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        (_nested(50), _nested(50)),
        (None, None),
    ],
    ids=["4001 digits", "beyond int64", "large float", "escaped nul", "emoji", "tuple", "odd keys", "50 deep", "none"],
)
def test_a_result_that_json_knows_is_stored_as_json_writes_it(
    run: Callable[..., Job], result: object, stored: object
) -> None:
    job = run(lambda ctx: result)
    assert job.state == "succeeded", (job.error_code, _detail(job))
    assert job.result == stored


@pytest.mark.parametrize(("over", "state", "code"), [(0, "succeeded", ""), (1, "failed", "result_too_large")])
def test_a_result_may_be_as_large_as_its_class_allows_in_bytes(
    run: Callable[..., Job], over: int, state: str, code: str
) -> None:
    allowed = classes.get("light").result_bytes
    text = "é" * ((allowed - 2) // 2) + "x" * over  # two quotes, two bytes a letter
    job = run(lambda ctx: text)
    assert (job.state, job.error_code) == (state, code)


class Moving(dict[str, int]):
    """A dict that a forgotten thread changes while it is written."""

    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def test_a_result_that_breaks_while_it_is_written_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: Moving(a=1)).error_code == "bad_result"


def test_a_nul_far_down_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: _nested(480, "\0")).error_code == "bad_result"


# ── What a handler may leave behind ──────────────────────────────────────────────────────────────────────────────────


def _leave_an_atomic_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    ApiClient.objects.create(name="half done")
    return "returned"


def _leave_a_broken_atomic_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1/0")
    except DatabaseError:
        pass
    return "returned"


def _leave_autocommit_off(ctx: JobContext[Any]) -> str:
    transaction.set_autocommit(False)
    ApiClient.objects.create(name="half done")
    return "returned"


def _leave_two_atomics_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    return _leave_an_atomic_open(ctx)


def _leave_a_plain_begin_open(ctx: JobContext[Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO jobs_apiclient (name) VALUES ('half done')")
    return "returned"


def _leave_a_closed_connection(ctx: JobContext[Any]) -> str:
    connection.close()
    return "returned"


@pytest.mark.parametrize(
    "handler",
    [
        _leave_an_atomic_open,
        _leave_two_atomics_open,
        _leave_a_broken_atomic_open,
        _leave_autocommit_off,
        _leave_a_closed_connection,
        _leave_a_plain_begin_open,
    ],
)
def test_a_transaction_that_a_handler_left_open_does_not_swallow_the_settle(
    run: Callable[..., Job], other: Elsewhere, handler: Handler
) -> None:
    try:
        job = run(handler)
        seen_by_others = other.run(lambda: job_rows.read(job.pk))
        assert (seen_by_others.state, seen_by_others.result) == ("succeeded", "returned")
        assert not other.run(ApiClient.objects.filter(name="half done").exists)
        assert connection.get_autocommit()
        assert lifecycle.settle(job.pk, 1, Outcome(State.SUCCEEDED)) is None  # and the connection works
    finally:
        connection.close()


@pytest.mark.parametrize("broken_first", ["terminated", "closed"])
def test_a_connection_that_dies_inside_a_job_costs_only_a_second_settle(
    run: Callable[..., Job], other: Elsewhere, broken_first: str
) -> None:
    """P34. The connection is the runner's own: the handler's is another."""
    runners, pid = connections["default"], backend_pid()

    def handler(ctx: JobContext[Any]) -> str:
        if broken_first == "closed":
            runners.connection.close()  # under Django's feet
        else:
            assert other.run(lambda: _terminate(pid))
        return "done"

    job = run(handler)
    assert (job.state, job.result) == ("succeeded", "done")


def _terminate(pid: int) -> bool:
    """And wait until it is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return bool(cursor.fetchone()[0])


def test_a_dead_connection_does_not_fail_a_job_that_reports_progress(run: Callable[..., Job], other: Elsewhere) -> None:
    """Progress is a courtesy."""

    def handler(ctx: JobContext[Any]) -> str:
        pid = backend_pid()
        assert other.run(lambda: _terminate(pid))
        ctx.progress(0.5)
        return "done"

    assert run(handler).state == "succeeded"


def test_a_settle_is_retried_until_the_database_is_back(run: Callable[..., Job], other: Elsewhere) -> None:
    """Two refused connections, then the database answers."""
    job, waits = _settled_through_an_outage(run, drop=lambda runners: runners.connection.close())
    assert job.state == "succeeded"
    assert waits >= 2


def test_a_settle_is_retried_also_when_the_handler_closed_its_connection(run: Callable[..., Job]) -> None:
    """As a long handler should, before an hour without queries."""
    job, _ = _settled_through_an_outage(run, drop=lambda runners: runners.close())
    assert job.state == "succeeded"


def test_what_becomes_of_a_job_is_decided_once_however_long_the_database_is_away(run: Callable[..., Job]) -> None:
    """A decision spends from the budget, draws a backoff and is counted."""
    again = telemetry.RETRIES.labels("again", "")._value
    before = again.get()
    job, waits = _settled_through_an_outage(
        run, drop=lambda runners: runners.connection.close(), error=ConnectionError(), max_attempts=3
    )
    assert (job.state, job.failures) == ("queued", 1)
    assert waits >= 2
    assert again.get() == before + 1


def test_an_exception_that_cannot_be_asked_what_it_is_is_a_failure(run: Callable[..., Job]) -> None:
    class Odd(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError

    job = run(_raise(Odd()), max_attempts=3)
    assert (job.state, job.error_code, job.stopped_by) == ("failed", "handler_error", "not_retryable")


@pytest.mark.parametrize(("after", "wake_ups"), [(0, 1), (60, 0)])
def test_a_job_that_is_tried_again_at_once_has_its_wake_up(
    run: Callable[..., Job], after: float, wake_ups: int
) -> None:
    """The top-up would send it a sweep later; a backoff's end is for the keepers to see (P14)."""
    assert run(_raise(RetryLater(after)), max_attempts=3).state == "queued"
    assert wakeups.queue_length("light") == wake_ups


def _settled_through_an_outage(
    run: Callable[..., Job], drop: Callable[[Any], None], error: Exception | None = None, **fields: Any
) -> tuple[Job, int]:
    """A handler at whose end nobody listens on the database's port for this thread; the job and the waits it took."""
    runners = connections["default"]
    real = runners.settings_dict
    waited = 0

    def sleep(seconds: float) -> None:
        nonlocal waited
        waited += 1
        if waited == 2:
            runners.settings_dict = real

    with socket.socket() as nobody, pytest.MonkeyPatch.context() as patch:
        nobody.bind(("127.0.0.1", 0))
        patch.setattr(settling, "time", SimpleNamespace(sleep=sleep))

        def handler(ctx: JobContext[Any]) -> str:
            runners.settings_dict = {**real, "HOST": "127.0.0.1", "PORT": nobody.getsockname()[1]}
            drop(runners)
            if error is not None:
                raise error
            return "done"

        try:
            return run(handler, **fields), waited
        finally:
            runners.settings_dict = real


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


# ── The context ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_sees_its_jobs_limit_run_down(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: ctx.remaining(), timeout_seconds=25.0)
    assert isinstance(job.result, float)
    assert 20 < job.result <= 25


def test_progress_is_written_where_callers_read_it(run: Callable[..., Job]) -> None:
    def handler(ctx: JobContext[Any]) -> list[object]:
        ctx.progress(0.25, "a quarter\0")
        seen = job_rows.read(ctx.job_id)
        return [seen.progress_fraction, seen.progress_note]

    assert run(handler).result == [0.25, "a quarter\\x00"]


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
    run: Callable[..., Job], node: WorkerNode, other: Elsewhere
) -> None:
    """The keeper renews from its main thread: a row that stays locked would stop its beats, and the node with them."""
    renewed: list[int] = []

    def renew() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '300ms'")  # instead of hanging, as the keeper would
        return leases.renew(node.pk, leases.of_node(node.pk), 30)

    def handler(ctx: JobContext[Any]) -> str:
        with transaction.atomic():
            ctx.progress(0.5)
            renewed.append(other.run(renew))
        return "done"

    assert run(handler).state == "succeeded"
    assert renewed == [1]


def test_an_attempt_runs_in_the_calling_thread(run: Callable[..., Job]) -> None:
    """Limits are signals, and signals reach the main thread only."""
    assert run(lambda ctx: threading.current_thread() is threading.main_thread()).result is True


# ── What a handler may do to a connection ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statement",
    [
        "SET search_path = pg_catalog",
        "SET default_transaction_read_only = on",
        "SET statement_timeout = '1ms'",
        "CREATE TEMP TABLE jobs_job (id integer)",
        "SET ROLE NONE; SET lock_timeout = '1ms'",
    ],
)
def test_what_a_handler_sets_on_its_connection_meets_neither_the_settle_nor_the_next_job(
    run: Callable[..., Job], statement: str
) -> None:
    def handler(ctx: JobContext[Any]) -> str:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        return "done"

    assert run(handler).state == "succeeded"
    assert run(lambda ctx: ApiClient.objects.count() >= 0).result is True


def test_a_handler_that_queries_nothing_opens_no_connection(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: connection.connection is None).result is True


# ── What must never run a finished job again ─────────────────────────────────────────────────────────────────────────


class Unreadable(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("nobody may ask")


@pytest.mark.parametrize("depth", [201, 500, 900, 935, 940, 990])
def test_a_result_nested_too_deeply_is_a_bad_result_at_any_depth(run: Callable[..., Job], depth: int) -> None:
    assert run(lambda ctx: _nested(depth)).error_code == "bad_result"


def test_an_error_that_cannot_be_read_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    job = run(_raise(Unreadable()), max_attempts=3)
    assert (job.state, job.error_code, job.attempt) == ("failed", "handler_error", 1)


def test_a_very_long_error_is_cut(run: Callable[..., Job]) -> None:
    job = run(_raise(ValueError("z" * 5_000_000)))
    assert (job.state, job.error_code) == ("failed", "handler_error")
    assert len(_detail(job)) <= 65_536


def test_what_escapes_the_runner_settles_the_job_and_ends_the_process(
    run: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the job would be lost, and run again although it had ended."""
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)

    def fails(me: Equipment, claim: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(runner, "_measured", fails)
    job = run(lambda ctx: "done")
    assert (job.state, job.error_code, ended) == ("failed", "internal_error", [1])


def test_signals_are_listened_to_anew_for_each_attempt(run: Callable[..., Job]) -> None:
    def deaf(ctx: JobContext[Any]) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})

    run(deaf)
    job = run(lambda ctx: threading.Event().wait(20), timeout_seconds=0.2)
    assert (job.state, job.error_code) == ("failed", "timeout")
