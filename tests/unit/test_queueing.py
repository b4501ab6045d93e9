"""The waiting line as M/M/c/K: its vectors, the chain in exact fractions, and the same line played."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.planning.queueing import predict, refusal_share, wait_exceeds

# rate, service_seconds, slots, max_waiting → refusal_share, mean, p50, p95, p99, utilisation
VECTORS = [
    (8, 0.2, 2, 20, 0.00165054, 0.33782888, 0.17202773, 1.25546360, 1.87282219, 0.79867957),
    (0.05, 30, 2, 6, 0.03128860, 24.17521612, 8.57911025, 93.47688445, 136.42331747, 0.72653355),
    (10, 1, 8, 16, 0.20232836, 1.53617128, 1.54721701, 2.58390834, 3.06060190, 0.99708954),
    (8, 1, 10, 0, 0.12166106, 0, 0, 0, 0, 0.70267115),
    (4, 1, 4, 12, 0.06570842, 1.37142857, 1.22328164, 3.45336470, 4.37713879, 0.93429158),
]


@pytest.mark.parametrize("vector", VECTORS)
def test_the_figures_of_a_line(vector: tuple[float, ...]) -> None:
    rate, service_seconds, slots, max_waiting, *expected = vector
    found = predict(rate, service_seconds, int(slots), int(max_waiting))
    assert list(vars(found).values()) == pytest.approx(expected, abs=1e-6)


@settings(max_examples=100)
@given(
    st.fractions(Fraction(1, 50), 20, max_denominator=50),
    st.fractions(Fraction(1, 50), 5, max_denominator=50),
    st.integers(1, 12),
    st.integers(0, 20),
)
def test_the_shares_are_those_of_the_chain_in_exact_fractions(
    rate: Fraction, service_seconds: Fraction, slots: int, max_waiting: int
) -> None:
    shares = _chain(rate, 1 / service_seconds, slots, max_waiting)
    found = predict(float(rate), float(service_seconds), slots, max_waiting)
    assert found.refusal_share == pytest.approx(float(shares[-1]), abs=1e-10)
    waiting = sum(n * share for n, share in enumerate(shares[slots:]))
    busy = sum(min(n, slots) * share for n, share in enumerate(shares))
    assert found.mean_wait_seconds == pytest.approx(float(waiting / (rate * (1 - shares[-1]))), rel=1e-9)  # Little
    assert found.utilisation == pytest.approx(float(busy / slots), rel=1e-9)


def _chain(rate: Fraction, leaving: Fraction, slots: int, max_waiting: int) -> list[Fraction]:
    """Births and deaths in balance, state by state."""
    shares = [Fraction(1)]
    for n in range(1, slots + max_waiting + 1):
        shares.append(shares[-1] * rate / (leaving * min(n, slots)))
    return [share / sum(shares) for share in shares]


@settings(max_examples=50)
@given(st.floats(0.01, 1000), st.floats(0.01, 100), st.integers(1, 64), st.integers(0, 200))
def test_a_quantile_is_where_its_probability_is_reached(
    rate: float, service_seconds: float, slots: int, max_waiting: int
) -> None:
    line = (rate, service_seconds, slots, max_waiting)
    found = predict(*line)
    assert 0 <= found.p50_wait_seconds <= found.p95_wait_seconds <= found.p99_wait_seconds < math.inf
    for share, seconds in ((0.5, found.p50_wait_seconds), (0.95, found.p95_wait_seconds)):
        if seconds == 0:
            assert wait_exceeds(*line, 0) <= 1 - share
        else:
            assert wait_exceeds(*line, seconds) == pytest.approx(1 - share, abs=1e-7)


def test_without_a_waiting_room_it_is_erlangs_loss_formula() -> None:
    loss = 1.0
    for n in range(1, 11):
        loss = 7.5 * loss / (n + 7.5 * loss)
    assert refusal_share(7.5, 1, 10, 0) == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("load", [1.0, 1.5, 40.0])
def test_a_load_that_no_slots_can_bear_is_refused_but_for_what_they_can(load: float) -> None:
    found = predict(load * 4, 1, 4, 200)
    assert found.refusal_share == pytest.approx(1 - 1 / load, abs=0.006)
    assert 0.99 < found.utilisation <= 1


def test_the_largest_class_there_is_has_figures() -> None:
    found = predict(100, 5, 256, 10_000)
    assert found.refusal_share == pytest.approx(1 - 256 / 500)
    assert found.p95_wait_seconds == pytest.approx(10_000 * 5 / 256, rel=0.03)


def test_next_to_no_load_waits_for_nothing() -> None:
    found = predict(1e-9, 1e-3, 1, 10)
    assert list(vars(found).values()) == pytest.approx([0, 0, 0, 0, 0, 1e-12], abs=1e-13)


@pytest.mark.parametrize(
    ("name", "value"), [("rate", 0), ("rate", math.nan), ("service_seconds", -1), ("slots", 0), ("rate", math.inf)]
)
def test_a_number_that_is_none_is_refused(name: str, value: float) -> None:
    given = {"rate": 1.0, "service_seconds": 1.0, "slots": 1, "max_waiting": 0, name: value}
    with pytest.raises(ValueError, match=f"{name} is {value!r}, but must be a number above 0"):
        predict(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("vector", [VECTORS[0], VECTORS[2]])
def test_the_figures_are_those_of_the_line_when_it_is_played(vector: tuple[float, ...]) -> None:
    """Played here by its events, one job after another; another way than the chain, and than workers.planning.simulation."""
    rate, service_seconds, slots, max_waiting, *_ = vector
    draws = random.Random(1)
    now, refused, free_at = 0.0, 0, [0.0] * int(slots)
    waits: list[float] = []
    starts: list[float] = []
    for _ in range(60_000):
        now += draws.expovariate(rate)
        starts = [start for start in starts if start > now]
        if len(starts) >= max_waiting and min(free_at) > now:
            refused += 1
            continue
        free_at.sort()
        start = max(now, free_at[0])
        free_at[0] = start + draws.expovariate(1 / service_seconds)
        waits.append(start - now)
        starts.append(start)
    found = predict(rate, service_seconds, int(slots), int(max_waiting))
    waits.sort()
    assert refused / 60_000 == pytest.approx(found.refusal_share, abs=0.01)
    assert sum(waits) / len(waits) == pytest.approx(found.mean_wait_seconds, rel=0.1)
    assert waits[int(0.95 * len(waits))] == pytest.approx(found.p95_wait_seconds, rel=0.1)
