"""What callers read of an attempt's end."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from jobs.states import State
from workers import outcomes
from workers.failures import Fail, JobCancelled, JobTimeout, RetryLater
from workers.retries import Retry


def test_of_an_ordinary_exception_only_its_class_name() -> None:
    outcome = outcomes.of_exception(RuntimeError("a secret"), Retry(), False, False)
    assert (outcome.error_code, outcome.error_message) == ("handler_error", "RuntimeError")
    assert "a secret" in outcome.detail


def test_of_a_fail_everything() -> None:
    outcome = outcomes.of_exception(Fail("no_route", "There is none.", {"from": "a"}), Retry(), False, False)
    assert (outcome.error_code, outcome.error_message, outcome.error_details) == (
        "no_route",
        "There is none.",
        {"from": "a"},
    )


@pytest.mark.parametrize("details", [object(), {"nan": float("nan")}, "a\0b", "\ud800"])
def test_details_that_cannot_be_stored_are_left_out_and_operators_are_told(details: object) -> None:
    outcome = outcomes.of_exception(Fail("x", "y", details), Retry(), False, False)
    assert (outcome.error_code, outcome.error_message, outcome.error_details) == ("x", "y", None)
    assert "Its details are left out: " in outcome.detail


def test_details_that_are_too_large_cost_neither_code_nor_message() -> None:
    outcome = outcomes.of_exception(Fail("x", "y", "z" * 2_000_000), Retry(), False, False)
    assert (outcome.error_code, outcome.error_details) == ("x", None)
    assert "at most" in outcome.detail


@pytest.mark.parametrize("given", [1, "yes"])
def test_whether_a_fail_is_retryable_is_yes_or_no(given: Any) -> None:
    assert Fail("x", "y", retryable=given).retryable is True


@pytest.mark.parametrize("code", ["", "No", "a-b", "1a", "a" * 64])
def test_a_fail_code_is_snake_case(code: str) -> None:
    with pytest.raises(ValueError, match="snake_case"):
        Fail(code, "x")


@pytest.mark.parametrize(("deadline_came_first", "code"), [(False, "timeout"), (True, "deadline")])
def test_whether_the_limit_or_the_deadline_came_first_is_told(deadline_came_first: bool, code: str) -> None:
    assert outcomes.of_exception(JobTimeout(), Retry(), deadline_came_first, False).error_code == code


def test_a_swallowed_timeout_is_a_timeout() -> None:
    success = outcomes.of_result({"done": True}, "light")
    assert success.state is State.SUCCEEDED
    outcome, error = outcomes.after_a_signal(JobTimeout, success, None, False, Retry())
    assert (outcome.error_code, type(error)) == ("timeout", JobTimeout)
    assert outcomes.after_a_signal(None, success, None, False, Retry()) == (success, None)


def test_a_timeout_that_became_another_error_is_a_timeout() -> None:
    other = outcomes.of_exception(OSError(), Retry(), False, False)
    outcome, error = outcomes.after_a_signal(JobTimeout, other, OSError(), False, Retry())
    assert (outcome.error_code, type(error)) == ("timeout", JobTimeout)


def test_a_swallowed_cancel_is_left_to_the_settle() -> None:
    success = outcomes.of_result(None, "light")
    assert outcomes.after_a_signal(JobCancelled, success, None, False, Retry()) == (success, None)


@pytest.mark.parametrize(("retry", "retryable"), [(Retry(), False), (Retry(on=(JobTimeout,)), True)])
def test_a_timeout_is_as_retryable_whoever_ended_it(retry: Retry, retryable: bool) -> None:
    """The handler that heard it, the one that swallowed it, the watchdog or the keeper."""
    success = outcomes.of_result(None, "light")
    swallowed, _ = outcomes.after_a_signal(JobTimeout, success, None, False, retry)
    heard = outcomes.of_exception(JobTimeout(), retry, False, False)
    ended = outcomes.timed_out(False, "a trace", retry)
    assert {outcome.retryable for outcome in (swallowed, heard, ended)} == {retryable}


class Odd(Exception):
    """As of an HTTP client that refuses to say what it never got."""

    @property
    def response(self) -> object:
        raise RuntimeError("the request instance has not been set")


class OddFail(Fail):
    def __init__(self) -> None:
        """Without what a Fail has."""


@pytest.mark.parametrize("error", [Odd(), OddFail()], ids=lambda error: type(error).__name__)
def test_an_exception_that_raises_when_it_is_asked_what_it_is_is_a_failure(error: Exception) -> None:
    outcome = outcomes.of_exception(error, Retry(max_attempts=3), False, False)
    assert (outcome.error_code, outcome.error_message, outcome.retryable) == (
        "handler_error",
        type(error).__name__,
        False,
    )


@pytest.mark.parametrize("after", [Fraction(1, 2), Decimal("0.5"), True])
def test_a_retry_later_is_told_in_any_kind_of_number(after: Any) -> None:
    assert type(RetryLater(after).after) is float


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -1, 10**400])
def test_a_retry_later_is_told_in_seconds_that_there_are(after: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        RetryLater(after)
