"""Whether a failed attempt is followed by another, and when. Pure; no Django. Durations in seconds."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from jobs.states import StoppedBy
from workers.failures import LONGEST_WAIT_SECONDS, Ended, Fail, RetryLater

RETRYABLE_STATUSES = frozenset({502, 503, 504})


@dataclass(frozen=True)
class Retry:
    """How often a job of a type is tried in all, and how attempts are spaced.

    on: exception classes to retry although they are not by default (JobTimeout, MemoryError, …).
    never: exception classes not to retry although they are by default.
    base_seconds, cap_seconds: the n-th retry waits a random time up to min(cap, base · 2^(n−1)). The default base
        spreads a thousand jobs that fail together so thin that no second gets a twentieth of them.
    budget: whether retries of this node may be at most a fifth of its recent attempts (and ten in any case).

    Raises ValueError for what cannot work; how many attempts there may be, @job checks.
    """

    max_attempts: int = 1
    on: tuple[type[BaseException], ...] = ()
    never: tuple[type[BaseException], ...] = ()
    base_seconds: float = 40.0
    cap_seconds: float = 600.0
    budget: bool = False

    def __post_init__(self) -> None:
        self._check_classes("on", self.on)
        self._check_classes("never", self.never)
        self._check_seconds("base_seconds", self.base_seconds)
        self._check_seconds("cap_seconds", self.cap_seconds)
        if self.cap_seconds < self.base_seconds:
            raise ValueError(
                f"Retry: cap_seconds is {self.cap_seconds!r}, but must be at least base_seconds, {self.base_seconds!r}."
            )

    def _check_classes(self, what: str, given: object) -> None:
        classes = given if isinstance(given, tuple) else (None,)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in classes):
            raise ValueError(f"Retry: {what} is {given!r}, but must be a tuple of exception classes.")

    def _check_seconds(self, what: str, given: object) -> None:
        if not isinstance(given, (int, float)) or isinstance(given, bool) or not 0 < given <= LONGEST_WAIT_SECONDS:
            raise ValueError(
                f"Retry: {what} is {given!r}, but must be a number of seconds above 0, at most {LONGEST_WAIT_SECONDS:.15g}."
            )


@dataclass(frozen=True)
class Again:
    """Try again after so many seconds."""

    after_seconds: float


@dataclass(frozen=True)
class Stop:
    """No further attempt, and why."""

    stopped_by: StoppedBy


def is_retryable(error: BaseException, retry: Retry) -> bool:
    """Of a class of errors, not of one job's chances (P25)."""
    if isinstance(error, retry.never):
        return False
    if isinstance(error, (RetryLater, *retry.on)):
        return True
    if isinstance(error, Fail):
        return error.retryable
    if isinstance(error, (Ended, MemoryError, ValidationError)) or not isinstance(error, Exception):
        return False
    own_word = getattr(error, "retryable", None)  # of the errors of ctx.http and ctx.fan_out, and of whoever's
    if isinstance(own_word, bool):
        return own_word
    status = _http_status(error)
    return status is None or status in RETRYABLE_STATUSES


def _http_status(error: BaseException) -> Any:
    """Of an HTTP client's error, whoever's client it is."""
    return getattr(getattr(error, "response", None), "status_code", None)


def decide(
    retry: Retry,
    error: BaseException,
    *,
    failures: int,
    max_attempts: int,
    remaining_seconds: float | None,
    spend: Callable[[], bool] = lambda: True,
    draw: Callable[[float, float], float] = random.uniform,
) -> Again | Stop:
    """Decide at settle time (P25).

    failures: failed attempts so far, this one included. remaining_seconds: to the job's deadline, None if it has
    none. spend: takes one retry from the node's budget, asked last and only if the type has opted in.
    """
    if not is_retryable(error, retry):
        return Stop("not_retryable")
    if failures >= max_attempts:
        return Stop("attempts")
    after = backoff_seconds(retry, error, failures, draw)
    if remaining_seconds is not None and after > remaining_seconds:
        return Stop("no_time")
    if retry.budget and not spend():
        return Stop("budget")
    return Again(after)


def backoff_seconds(retry: Retry, error: BaseException, failures: int, draw: Callable[[float, float], float]) -> float:
    """Full jitter, but never sooner than the handler asked for. Raises ValueError for a RetryLater that was changed to no time."""
    if isinstance(error, RetryLater):
        after = float(error.after)
        if not 0 <= after <= LONGEST_WAIT_SECONDS:
            raise ValueError(f"RetryLater after {after!r}")
        return after
    return draw(0.0, min(retry.cap_seconds, retry.base_seconds * 2.0 ** (failures - 1)))
