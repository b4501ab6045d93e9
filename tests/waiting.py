"""Waiting for a condition, with a bound."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_seconds: float = 10.0, every_seconds: float = 0.05) -> T:
    """The condition's first truthy value. Fails, with its last value, when there is none in time."""
    until = time.monotonic() + within_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"not within {within_seconds} s; last seen: {value!r}")
        time.sleep(every_seconds)
