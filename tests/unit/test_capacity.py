"""Room, drain and Retry-After (P10) as arithmetic: vectors on both sides of every threshold."""

import pytest

from jobs.capacity import Room, backlog_seconds, drain_per_second, retry_after_seconds, worked_off_in_seconds


@pytest.mark.parametrize(
    ("waiting", "running", "slots", "max_waiting", "free"),
    [
        (0, 0, 2, 3, 5),
        (2, 2, 2, 3, 1),
        (3, 2, 2, 3, 0),
        (9, 2, 2, 3, 0),  # slots were lost after admission
        (0, 1, 2, 0, 1),
        (1, 1, 2, 0, 0),  # a waiting job takes a free process
        (0, 0, 0, 3, 3),  # nobody works yet; the waiting room is there
        (0, 0, 0, 0, 0),
    ],
)
def test_free_places_are_slots_and_waiting_room_less_what_is_there(
    waiting: int, running: int, slots: int, max_waiting: int, free: int
) -> None:
    assert Room(waiting, running, slots).free(max_waiting) == free


def test_the_bound_is_slots_and_waiting_room() -> None:
    assert Room(waiting=7, running=1, slots=2).bound(3) == 5


@pytest.mark.parametrize(
    ("departures", "over_seconds", "drain"),
    [
        (5, 60.0, 5 / 60),
        (60, 60.0, 1.0),
        (5, 0.5, 10.0),
        (4, 60.0, None),
        (0, 60.0, None),
        (5, 0.0, None),
        (5, -1.0, None),
    ],
)
def test_drain_is_measured_from_five_departures_on(departures: int, over_seconds: float, drain: float | None) -> None:
    assert drain_per_second(departures, over_seconds) == drain


@pytest.mark.parametrize(
    ("waiting", "max_waiting", "drain", "seconds"),
    [
        (8, 8, 1.0, 2),  # resume at 6, so two have to leave
        (7, 8, 1.0, 1),
        (6, 8, 1.0, 1),  # at least one
        (0, 8, 1.0, 1),
        (100, 100, 2.0, 10),
        (0, 0, 0.25, 4),  # without a waiting room the first departure counts
        (8, 8, 0.3, 7),  # 6.7 is rounded up
        (8, 8, 1000.0, 1),  # never 0
        (8, 8, 2 / 299, 299),
        (8, 8, 2 / 300, 300),
        (8, 8, 2 / 301, 300),  # the cap
    ],
)
def test_retry_after_is_the_time_until_a_fifth_of_the_room_is_free(
    waiting: int, max_waiting: int, drain: float, seconds: int
) -> None:
    assert retry_after_seconds(Room(waiting, 2, 2), max_waiting, drain, 5) == seconds


@pytest.mark.parametrize("fallback", [1, 5, 300])
def test_without_a_measured_drain_the_configuration_speaks(fallback: int) -> None:
    assert retry_after_seconds(Room(8, 1, 1), 8, None, fallback) == fallback


@pytest.mark.parametrize("drain", [None, 50.0])
def test_with_no_worker_alive_it_is_the_cap(drain: float | None) -> None:
    assert retry_after_seconds(Room(8, 0, 0), 8, drain, 5) == 300


def test_a_fifth_of_every_waiting_room_is_exact() -> None:
    """0.8 · n must not come out below its whole number for any n that a class may have."""
    full = {n: retry_after_seconds(Room(n, 1, 1), n, 10.0, 5) for n in range(10_001)}
    assert full == {n: min(300, max(1, -(-(n - 4 * n // 5) // 10))) for n in full}


@pytest.mark.parametrize(("work", "slots", "processes", "seconds"), [(12, 2, 4, 6), (12, 0, 4, 3), (0, 0, 1, 0)])
def test_the_backlog_is_the_work_over_the_slots_or_over_what_is_configured(
    work: float, slots: int, processes: int, seconds: float
) -> None:
    assert backlog_seconds(Room(0, 0, slots, work), processes) == seconds


@pytest.mark.parametrize(
    ("backlog", "bound", "seconds"), [(12, 8, 5.6), (8, 8, 1.6), (6.4, 8, 0), (0, 8, 0), (100, 0, 100)]
)
def test_work_is_worked_off_a_second_a_second_down_to_four_fifths_of_its_bound(
    backlog: float, bound: float, seconds: float
) -> None:
    assert worked_off_in_seconds(backlog, bound) == pytest.approx(seconds)
