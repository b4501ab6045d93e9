"""How a handler ends an attempt otherwise than by returning. No Django."""

import re
from typing import Any

_CODE = re.compile(r"[a-z][a-z0-9_]{0,62}")
MESSAGE_LENGTH = 1000
LONGEST_WAIT_SECONDS = 366 * 86_400.0  # before another attempt; a year, and no instant that a database cannot hold


class Fail(Exception):
    """The job cannot succeed, and its caller may read why.

    code: stable, snake_case; message: a sentence; details: JSON-able data, or None. It is not retried unless
    `retryable` is set. Of any other exception callers see its class name only.
    """

    def __init__(self, code: str, message: str, details: Any = None, *, retryable: bool = False) -> None:
        if not _CODE.fullmatch(code):
            raise ValueError(f"Fail code {code!r}: must be snake_case, at most 63 characters.")
        super().__init__(code, message)
        self.code, self.message, self.details = code, message[:MESSAGE_LENGTH], details
        self.retryable = bool(retryable)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ResultNotKept(ValueError):
    """What ctx.once(key, fn) returned cannot be kept, but its effect has happened. Not tried again: that would repeat it."""

    retryable = False


class RetryLater(Exception):
    """Try this job again, not before `after` seconds from now, at most 366 days. It counts as a failed attempt."""

    def __init__(self, after: float, message: str = "") -> None:
        after = float(after)
        if not 0 <= after <= LONGEST_WAIT_SECONDS:
            raise ValueError(
                f"RetryLater after {after!r}: must be a number of seconds from 0 to {LONGEST_WAIT_SECONDS:.15g}, 366 days."
            )
        super().__init__(message)
        self.after = after


class Ended(KeyboardInterrupt):
    """Raised inside a handler from outside, as an interrupt is: `except Exception` does not swallow it, asyncio lets it
    through instead of writing it to its log, and subprocess.run ends the process that it waits for."""


class JobTimeout(Ended):
    """The attempt's time is up; what is left is the grace."""


class JobCancelled(Ended):
    """The job was cancelled; what is left is the grace."""


class LeaseLost(Ended):
    """The job is somebody else's by now: this attempt may have no further effect (P18)."""
