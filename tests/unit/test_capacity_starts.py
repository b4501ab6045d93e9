"""When a job would start, and to which turn a refused caller is sent: vectors of each formula, and what holds for any numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.capacity import (
    MOST_DEPARTURES,
    Room,
    departures_within,
    poisson_cdf,
    retry_after_seconds,
    start_probability,
    start_seconds,
    turn_at,
)


@pytest.mark.parametrize(
    ("departures", "slots", "service_seconds", "within_seconds", "probability"),
    [
        (4, 2, 30, 60, 0.566530),
        (4, 2, 30, 120, 0.957620),
        (1, 2, 30, 30, 0.864665),
        (20, 2, 0.2, 2, 0.529743),
        (20, 2, 0.2, 3, 0.978127),
    ],
)
def test_the_probability_of_a_start_in_time_is_the_erlang_tail(
    departures: int, slots: int, service_seconds: float, within_seconds: float, probability: float
) -> None:
    found = start_probability(departures, slots, service_seconds, within_seconds)
    assert found == pytest.approx(probability, abs=1e-6)


def test_a_job_that_needs_no_departure_starts_at_once_and_one_without_slots_or_time_never() -> None:
    assert start_probability(0, 2, 30, 0) == 1
    assert start_probability(1, 2, 30, 0) == 0
    assert start_probability(1, 2, 30, -5) == 0
    assert start_probability(1, 0, 30, 60) == 0


@pytest.mark.parametrize(
    ("within_seconds", "slots", "service_seconds", "places"),
    [
        (1, 2, 0.2, 5),
        (2, 2, 0.2, 13),
        (60, 2, 30, 1),
        (120, 2, 30, 4),
        (300, 2, 30, 13),
        (2, 8, 1, 10),
        (5, 8, 1, 30),
        (30, 4, 5, 16),
    ],
)
def test_the_last_place_of_the_largest_room_starts_in_time_and_one_further_would_not(
    within_seconds: float, slots: int, service_seconds: float, places: int
) -> None:
    assert departures_within(slots, service_seconds, within_seconds) == places
    assert start_probability(places, slots, service_seconds, within_seconds) >= 0.95
    assert start_probability(places + 1, slots, service_seconds, within_seconds) < 0.95


def test_no_time_is_no_room_and_all_the_time_is_the_largest_room_there_is() -> None:
    assert departures_within(2, 30, 0) == 0
    assert departures_within(256, 0.001, 86_400) == MOST_DEPARTURES


@given(st.integers(1, 60), st.integers(1, 64), st.floats(0.01, 1000), st.floats(0.01, 0.999))
def test_the_time_until_a_start_is_where_its_probability_is_reached(
    departures: int, slots: int, service_seconds: float, sure: float
) -> None:
    seconds = start_seconds(departures, slots, service_seconds, sure)
    assert start_probability(departures, slots, service_seconds, seconds) >= sure
    assert start_probability(departures, slots, service_seconds, seconds * 0.999) < sure


@given(st.integers(0, 150), st.floats(0.001, 150))
def test_the_poisson_distribution_is_that_of_its_terms_added_up(count: int, mean: float) -> None:
    terms = [math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(count + 1)]
    assert poisson_cdf(count, mean) == pytest.approx(math.fsum(terms), abs=1e-12)


def test_means_that_no_double_has_a_power_of_are_nothing_special() -> None:
    assert poisson_cdf(10**6, 10.0**6) == pytest.approx(0.5, abs=1e-3)
    assert poisson_cdf(10, 1e9) == 0
    assert poisson_cdf(0, 1e-300) == 1
    assert poisson_cdf(10_000, 0.5) == 1


@pytest.mark.parametrize(
    ("waiting", "max_waiting", "service_seconds", "slots", "seconds"),
    [(20, 20, 0.2, 2, 1), (6, 6, 30, 2, 30), (24, 24, 2, 8, 2), (6, 6, 90, 2, 90)],
)
def test_retry_after_of_a_class_that_drains_at_its_full_rate(
    waiting: int, max_waiting: int, service_seconds: float, slots: int, seconds: int
) -> None:
    drain = slots / service_seconds
    assert retry_after_seconds(Room(waiting, slots, slots), max_waiting, drain, 5) == seconds


def test_callers_who_are_refused_in_a_row_are_sent_to_different_turns() -> None:
    spacing = 30 / 2
    last: float | None = None
    told = []
    for _ in range(6):
        last = turn_at(100.0, spacing, last, spacing)
        told.append(last - 100.0)
    assert told == [15, 30, 45, 60, 75, 90]


def test_a_turn_that_has_passed_holds_nobody_back() -> None:
    assert turn_at(1000.0, 15.0, 100.0, 15.0) == 1015.0
    assert turn_at(1000.0, 15.0, 1000.0, 15.0) == 1015.0
