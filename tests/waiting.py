"""Waiting for a condition, with a bound."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


FIRST_SECONDS, LONGEST_SECONDS = 0.02, 0.2
SHARE = 0.1  # of the time waited so far: a look costs CPU, often a stack's, which is what is waited for


def eventually(condition: Callable[[], T], within_seconds: float = 10.0, every_seconds: float | None = None) -> T:
    """The condition's first truthy value. Fails, with its last value, when there is none in time.

    Looked at ever more seldom, unless it is said how often: for what may be seen for a moment only.
    """
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited > within_seconds:
            raise AssertionError(f"not within {within_seconds} s; last seen: {value!r}")
        time.sleep(every_seconds or min(max(FIRST_SECONDS, SHARE * waited), LONGEST_SECONDS))
