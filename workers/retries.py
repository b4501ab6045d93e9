"""When a failed attempt may be followed by another. No Django."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Retry:
    """How often a job of a type may be tried in all."""

    max_attempts: int = 1
