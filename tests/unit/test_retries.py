"""Whether a failed attempt is followed by another, and when (P25)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from workers.deadlines import DeadlineExceeded
from workers.failures import Fail, JobCancelled, JobTimeout, RetryLater
from workers.fanout import CallOutcome, RequiredCallFailed
from workers.http import Unreachable, WrongCall
from workers.retries import Again, Retry, Stop, decide, is_retryable


class _Model(BaseModel):
    n: int


def _validation_error() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        _Model.model_validate({"n": "no"})
    return caught.value


class _HttpError(Exception):
    def __init__(self, status: int) -> None:
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (RuntimeError(), True),
        (ConnectionResetError(), True),
        (JobTimeout(), False),
        (JobCancelled(), False),
        (MemoryError(), False),
        (SystemExit(), False),
        (KeyboardInterrupt(), False),
        (_validation_error(), False),
        (Fail("no_route", "No."), False),
        (Fail("busy", "Later.", retryable=True), True),
        (RetryLater(1), True),
        (DeadlineExceeded("late"), False),
        (Unreachable("away"), True),
        (WrongCall("no such service"), False),
        (RequiredCallFailed("price", {"price": CallOutcome(False, 404, error="http_404")}), False),
        (RequiredCallFailed("price", {"price": CallOutcome(False, 503, error="unavailable", retryable=True)}), True),
        *[(_HttpError(status), False) for status in (400, 401, 403, 404, 409, 422, 500, 501)],
        *[(_HttpError(status), True) for status in (502, 503, 504)],
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_which_errors_are_worth_another_try(error: BaseException, retryable: bool) -> None:
    assert is_retryable(error, Retry(max_attempts=3)) is retryable


def test_a_type_may_list_what_is_not_retried_by_default() -> None:
    assert is_retryable(JobTimeout(), Retry(max_attempts=3, on=(JobTimeout,)))


def test_never_beats_everything() -> None:
    assert not is_retryable(RuntimeError(), Retry(max_attempts=3, on=(Exception,), never=(RuntimeError,)))


def _decide(error: BaseException | None = None, **changes: Any) -> Again | Stop:
    given_values: dict[str, Any] = {
        "failures": 1,
        "max_attempts": 3,
        "remaining_seconds": None,
        "draw": lambda low, high: high,
    }
    retry = changes.pop("retry", Retry(max_attempts=3, base_seconds=8))
    return decide(retry, error or RuntimeError(), **{**given_values, **changes})


def test_the_wait_doubles_up_to_the_cap() -> None:
    retry = Retry(max_attempts=9, base_seconds=8, cap_seconds=20)
    waits = [_decide(retry=retry, failures=n, max_attempts=9) for n in (1, 2, 3, 4)]
    assert waits == [Again(8), Again(16), Again(20), Again(20)]


@pytest.mark.parametrize(("failures", "expected"), [(2, Again(16)), (3, Stop("attempts"))])
def test_attempts_are_counted(failures: int, expected: object) -> None:
    assert _decide(failures=failures) == expected


@pytest.mark.parametrize(("remaining", "expected"), [(8.0, Again(8)), (7.9, Stop("no_time"))])
def test_the_backoff_must_be_over_before_the_deadline(remaining: float, expected: object) -> None:
    assert _decide(remaining_seconds=remaining) == expected


def test_a_handler_that_says_when_is_heard() -> None:
    assert _decide(RetryLater(77)) == Again(77)


@pytest.mark.parametrize(("left", "expected"), [(True, Again(8)), (False, Stop("budget"))])
def test_a_type_with_a_budget_asks_for_it(left: bool, expected: object) -> None:
    retry = Retry(max_attempts=3, base_seconds=8, budget=True)
    assert _decide(retry=retry, spend=lambda: left) == expected


def test_the_budget_is_spent_only_on_a_retry_that_happens() -> None:
    asked: list[bool] = []

    def spend() -> bool:
        asked.append(True)
        return True

    retry = Retry(max_attempts=3, base_seconds=8, budget=True)
    _decide(retry=retry, spend=spend, failures=3)
    _decide(retry=retry, spend=spend, remaining_seconds=1)
    _decide(JobTimeout(), retry=retry, spend=spend)
    assert asked == []


def test_a_type_without_a_budget_never_asks() -> None:
    def spend() -> bool:
        raise AssertionError("asked")

    assert _decide(spend=spend) == Again(8)


@given(failures=st.integers(1, 60), seed=st.randoms(use_true_random=False))
def test_the_wait_is_anywhere_between_nothing_and_its_ceiling(failures: int, seed: Any) -> None:
    retry = Retry(max_attempts=99)
    draw: Callable[[float, float], float] = seed.uniform
    decision = _decide(retry=retry, failures=failures, max_attempts=99, draw=draw)
    assert isinstance(decision, Again)
    assert 0 <= decision.after_seconds <= min(600, 40 * 2 ** (failures - 1))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"on": JobTimeout}, "on is <class 'workers.failures.JobTimeout'>, but must be a tuple of exception classes"),
        ({"on": [JobTimeout]}, "on is .*must be a tuple"),
        ({"never": ("ValueError",)}, "never is .*must be a tuple of exception classes"),
        ({"never": (int,)}, "never is .*must be a tuple of exception classes"),
        *(({"base_seconds": wrong}, "base_seconds is") for wrong in (0, -1, float("nan"), float("inf"), "5", True)),
        *(({"cap_seconds": wrong}, "cap_seconds is") for wrong in (0, float("inf"), 366 * 86_400 + 1, None)),
        ({"base_seconds": 10, "cap_seconds": 9.9}, "cap_seconds is 9.9, but must be at least base_seconds, 10"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_in_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"Retry: {sentence}"):
        Retry(**wrong)


def test_a_rule_at_its_bounds_is_taken() -> None:
    Retry(on=(), never=(BaseException,), base_seconds=10, cap_seconds=10)
    Retry(base_seconds=0.001, cap_seconds=366 * 86_400)


@pytest.mark.parametrize("after", [-0.1, float("nan"), float("inf"), 366 * 86_400 + 1])
def test_a_later_that_is_no_time_or_too_late_is_refused_in_a_sentence(after: float) -> None:
    with pytest.raises(ValueError, match="RetryLater after .*from 0 to .*366 days"):
        RetryLater(after)


@pytest.mark.parametrize("after", [0, 366 * 86_400])
def test_a_later_within_a_year_is_taken(after: float) -> None:
    assert RetryLater(after).after == after
