"""Deadlines: instants of a monotonic clock. No Django."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class DeadlineExceeded(Exception):
    """The time was up first. What it was up for is in the sentence."""

    code = "deadline_exceeded"
    retryable = False  # by the job: whatever remains of its time is too little


@dataclass(frozen=True)
class Deadline:
    """An instant of a monotonic clock, by default this machine's; `math.inf` is no deadline at all."""

    at: float
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)

    def __post_init__(self) -> None:
        if math.isnan(self.at):
            raise ValueError("A deadline is nan, but must be an instant.")

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> "Deadline":
        """`seconds` from now; a negative number is a deadline that has passed."""
        return cls(clock() + seconds, clock)

    def remaining(self) -> float:
        """Seconds; never negative."""
        return max(0.0, self.at - self.clock())

    @property
    def expired(self) -> bool:
        return self.remaining() == 0

    def sooner(self, other: "Deadline") -> "Deadline":
        """The earlier of two deadlines of one clock."""
        return other if other.at < self.at else self
