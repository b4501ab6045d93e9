"""What a run is expected to take: near the mean, whatever a few odd runs took."""

import math
import random
from collections.abc import Callable
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.expected_cost import expected_cost

RUNS = st.lists(st.floats(0.001, 1e5), min_size=20, max_size=60)


def test_nineteen_runs_say_nothing_and_twenty_do() -> None:
    assert expected_cost([2.0] * 19) is None
    assert expected_cost([2.0] * 20) == 2.0


def test_the_longest_of_twenty_counts_as_the_longest_of_the_others() -> None:
    assert expected_cost([1.0] * 18 + [3.0, 900.0]) == pytest.approx((18 + 3 + 3) / 20)
    assert expected_cost([1.0] * 18 + [900.0, 900.0]) == pytest.approx((18 + 900 + 900) / 20)
    assert expected_cost([1.0] * 19 + [900.0, 900.0]) == 1.0  # one in twenty and a part is two


@given(RUNS, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_says_nothing(runs: list[float], draws: random.Random) -> None:
    mixed = runs.copy()
    draws.shuffle(mixed)
    assert expected_cost(mixed) == expected_cost(runs)


@given(RUNS, st.floats(1, 1e9))
def test_a_longest_run_that_takes_longer_yet_changes_nothing(runs: list[float], times: float) -> None:
    odd = sorted(runs)
    odd[-1] *= times
    assert expected_cost(odd) == expected_cost(runs)


@given(RUNS)
def test_it_is_at_most_the_mean_and_within_the_runs(runs: list[float]) -> None:
    found = expected_cost(runs)
    assert found is not None
    assert min(runs) * (1 - 1e-12) <= found <= fmean(runs) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("draw", "mean", "off"),
    [
        (lambda draws: draws.expovariate(1.0), 1.0, -0.05),
        (lambda draws: draws.lognormvariate(0, 1), math.exp(0.5), -0.10),
    ],
    ids=["exponential", "lognormal"],
)
def test_it_is_as_far_off_as_its_table_says(draw: Callable[[random.Random], float], mean: float, off: float) -> None:
    draws = random.Random(7)
    estimates = [expected_cost([draw(draws) for _ in range(100)]) for _ in range(1000)]
    assert fmean(e for e in estimates if e is not None) / mean - 1 == pytest.approx(off, abs=0.015)
