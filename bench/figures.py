"""What is made of samples: percentiles, and medians that say how far the single rounds lay apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, the lowest and the highest of them."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def ratios(ones: Sequence[float], others: Sequence[float]) -> Spread:
    """Round by round, so that a machine whose speed drifts shifts both sides of each."""
    return spread([one / other for one, other in zip(ones, others, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """Of the nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
