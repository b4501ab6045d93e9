"""Whatever a handler raises ends in one stored outcome, and the task returns (P21, P34)."""

import faulthandler
import logging
import logging.config
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from django.db import DatabaseError, connections
from structlog.testing import capture_logs

from jobs import lifecycle, telemetry, wakeups
from jobs.models import Attempt, Job
from tests import job_rows
from tests.integration.attempts import detail, raising
from workers import equipment, reporting, runner
from workers.context import JobContext
from workers.equipment import Equipment
from workers.failures import JobCancelled, JobTimeout, RetryLater
from workers.limits import CANCEL_SIGNAL
from workers.logbook import LOGGER
from workers.slots import Phase

# The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]


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
    job = run(raising(error))
    assert (job.state, job.error_code, job.error_message) == ("failed", "handler_error", type(error).__name__)
    assert job.failures == 1


def test_callers_see_the_name_of_an_exception_and_operators_its_text(run: Callable[..., Job]) -> None:
    job = run(raising(ValueError("password=hunter2")))
    assert "hunter2" not in str(job_rows.row(job.pk))
    assert "hunter2" in detail(job)
    assert "Traceback" in detail(job)


def test_an_exception_that_cannot_even_be_printed_is_a_failure(run: Callable[..., Job]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert run(raising(Mute())).error_code == "handler_error"


def test_a_nul_in_an_exceptions_text_does_not_hide_its_cause(run: Callable[..., Job]) -> None:
    job = run(raising(ValueError("before\0after")))
    assert (job.state, job.error_code, job.error_message) == ("failed", "handler_error", "ValueError")
    assert "Traceback" in detail(job)


def test_a_lone_surrogate_in_an_exceptions_text_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    """As in the name of a file that is not UTF-8."""
    job = run(raising(ValueError("file \udcff")))
    assert (job.state, job.error_code) == ("failed", "handler_error")


def test_params_that_no_longer_fit_fail_before_the_handler(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: pytest.fail("never"), params={"n": "secret-word"})
    assert (job.state, job.error_code) == ("failed", "invalid_params")
    assert "secret-word" not in job.error_message
    assert "secret-word" not in detail(job)


def test_a_params_model_with_a_fault_of_its_own_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    job = run(lambda ctx: pytest.fail("never"), params={"n": 13})
    assert job.state == "failed"


@pytest.mark.parametrize(("after", "wake_ups"), [(0, 1), (60, 0)])
def test_a_job_that_is_tried_again_at_once_has_its_wake_up(
    run: Callable[..., Job], after: float, wake_ups: int
) -> None:
    """The top-up would send it a sweep later; a backoff's end is for the keepers to see (P14)."""
    assert run(raising(RetryLater(after)), max_attempts=3).state == "queued"
    assert wakeups.queue_length("light") == wake_ups


class Unreadable(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("nobody may ask")


def test_an_error_that_cannot_be_read_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    job = run(raising(Unreadable()), max_attempts=3)
    assert (job.state, job.error_code, job.attempt) == ("failed", "handler_error", 1)


def test_a_very_long_error_is_cut(run: Callable[..., Job]) -> None:
    job = run(raising(ValueError("z" * 5_000_000)))
    assert (job.state, job.error_code) == ("failed", "handler_error")
    assert len(detail(job)) <= 65_536


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


def test_an_exception_with_odd_attributes_is_let_go_like_any_other(run: Callable[..., Job]) -> None:
    class Odd(Exception):
        exceptions: ClassVar[dict[str, str]] = {"a": "not an exception"}

    assert run(raising(Odd())).error_code == "handler_error"
    group = ExceptionGroup("both", [ValueError("one"), KeyError("two")])
    assert run(raising(group)).error_code == "handler_error"


def test_an_error_tracker_that_hangs_is_under_a_watch(run: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """Told after the job has ended, when no limit stands behind it any more."""
    watches: list[str] = []

    def noted(name: str, word: str) -> None:
        real = getattr(faulthandler, name)

        def call(*arguments: Any, **options: Any) -> None:
            watches.append(word)
            real(*arguments, **options)

        monkeypatch.setattr(faulthandler, name, call)

    noted("dump_traceback_later", "on")
    noted("cancel_dump_traceback_later", "off")
    monkeypatch.setattr(reporting, "attempt_failed", lambda error, claim: watches.append("told"))
    run(raising(ValueError()))
    assert watches == ["on", "off", "on", "told", "off", "on", "off"]


def _cancelled_from_outside(ctx: JobContext[Any]) -> None:
    """As the keeper does it."""
    lifecycle.cancel(ctx.job_id)
    shared = equipment.mine().slot.shared
    shared.ask_to_cancel(next(shared.all()))
    os.kill(os.getpid(), CANCEL_SIGNAL)


def test_a_cancel_that_is_heeded_is_nobodys_failure(run: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(reporting, "attempt_failed", lambda error, claim: told.append(error))
    stops = [telemetry.RETRIES.labels("stop", reason)._value for reason in telemetry.STOPPED_BY]
    before = [stop.get() for stop in stops]
    job = run(_cancelled_from_outside, max_attempts=3)
    assert (job.state, Attempt.objects.get().error_code) == ("cancelled", "cancelled")
    assert told == []
    assert [stop.get() for stop in stops] == before


def test_a_job_cancelled_that_a_handler_raises_by_itself_is_an_exception_like_any_other(
    run: Callable[..., Job],
) -> None:
    job = run(raising(JobCancelled()))
    assert (job.state, job.error_code, job.error_message) == ("failed", "handler_error", "JobCancelled")


def test_a_body_that_has_ended_is_no_longer_to_be_ended(run: Callable[..., Job]) -> None:
    """While its result is looked at, and all the way to the settle: it would be run again."""
    phases: list[Phase] = []

    class Watched(dict[str, int]):
        def items(self) -> Any:
            phases.extend(seen.phase for seen in equipment.mine().slot.shared.all())
            return super().items()

    assert run(lambda ctx: Watched(n=1)).result == {"n": 1}
    assert phases == [Phase.SETTLING]


def test_before_the_next_claim_nothing_is_left_of_the_last_attempt(run: Callable[..., Job]) -> None:
    """A child that is killed before it begins must not hand another job's log to its keeper."""
    book = equipment.mine().logbook
    run(lambda ctx: book.emit(logging.makeLogRecord({"msg": "a line of this job"})))
    assert "a line of this job" in Attempt.objects.get().log
    runner.run_next("light", lambda claim: None)
    assert book.text() == ""


def test_each_decision_after_a_failure_is_one_line_with_its_reason(run: Callable[..., Job]) -> None:
    deadline = job_rows.later(300)
    with capture_logs() as lines:
        first = run(
            raising(ConnectionResetError("to 10.0.0.7")), max_attempts=2, deadline_at=deadline, request_id="r-1"
        )
        last = run(raising(ValueError("secret")), max_attempts=1)
    told = [line for line in lines if line["event"] == "retry_decision"]
    assert [line["job_id"] for line in told] == [str(first.pk), str(last.pk)]
    assert {
        name: told[0][name] for name in ("attempt", "max_attempts", "error", "retryable", "decision", "reason")
    } == {
        "attempt": 1,
        "max_attempts": 2,
        "error": "ConnectionResetError",
        "retryable": True,
        "decision": "again",
        "reason": "",
    }
    assert first.deadline_at is not None
    assert told[0]["deadline_at"] == first.deadline_at.isoformat()
    assert 290 < told[0]["remaining_seconds"] <= 300
    assert told[0]["after_seconds"] > 0
    assert (told[1]["decision"], told[1]["reason"], told[1]["deadline_at"]) == ("stop", "attempts", None)
    assert "secret" not in str(told)
    assert "10.0.0.7" not in str(told)


class NoTime(RetryLater):
    def __init__(self) -> None:
        super().__init__(1)
        self.after = float("nan")


def test_a_retry_later_of_no_time_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    job = run(raising(NoTime()), max_attempts=3)
    assert (job.state, job.stopped_by, job.attempt) == ("failed", "not_retryable", 1)


def test_a_coroutine_that_a_plain_function_returns_is_run(run: Callable[..., Job]) -> None:
    """As of an async handler under a decorator."""

    async def answer() -> int:
        return 42

    assert run(lambda ctx: answer()).result == 42


@pytest.mark.parametrize("effect", ["once", "key alone"])
def test_of_several_threads_of_a_handler_one_has_the_effect(run: Callable[..., Job], effect: str) -> None:
    happened: list[int] = []

    def handler(ctx: JobContext[Any]) -> int:
        def act(number: int) -> None:
            if effect == "once":
                ctx.once("paid", lambda: happened.append(number))
            elif ctx.once("paid"):
                happened.append(number)
            connections.close_all()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(act, range(8)))
        return len(happened)

    assert run(handler).result == 1


def test_after_logging_was_configured_anew_the_next_jobs_lines_are_kept(run: Callable[..., Job]) -> None:
    """As alembic and others do it: every logger that there is is switched off."""
    book = equipment.mine().logbook
    logging.getLogger(LOGGER).addHandler(book)
    try:
        run(lambda ctx: logging.config.dictConfig({"version": 1}))
        job = run(lambda ctx: ctx.log.info("a line of the next job"))
    finally:
        logging.getLogger(LOGGER).removeHandler(book)
        book.attach()
        logging.getLogger(LOGGER).removeHandler(book)
    assert "a line of the next job" in Attempt.objects.get(job=job).log


@pytest.mark.parametrize(
    ("left", "fired", "changed", "leaves"),
    [([], None, [], False), (["Thread-1"], None, [], True), ([], JobTimeout, [], True), ([], None, ["umask"], True)],
)
def test_a_process_in_which_the_last_job_may_be_felt_takes_no_other(
    left: list[str], fired: Any, changed: list[str], leaves: bool
) -> None:
    me = Mock(limits=SimpleNamespace(fired=fired), alterations=SimpleNamespace(found=lambda: changed))
    runner._leave_if(me, left)
    assert me.leave.called is leaves
