"""Turns while Redis is away, and the rate that spaces them (P10)."""

import pytest

from jobs.capacity import Room, departures_per_second, retry_after_seconds
from jobs.local_turns import LocalTurns


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> LocalTurns:
    return LocalTurns(clock)


def _take(
    turns: LocalTurns,
    key: str,
    client: int = 1,
    base: float = 15,
    jitter: float = 0.0,
    most: int = 8,
    again: bool = True,
) -> tuple[int, bool]:
    return turns.take("heavy", client, key, base, 15.0, jitter, most, again)


@pytest.mark.parametrize(
    ("waiting", "max_waiting", "run_seconds", "slots", "seconds"),
    [(20, 20, 0.2, 2, 1), (6, 6, 30, 2, 30), (24, 24, 2, 8, 2), (6, 6, 90, 2, 90)],
)
def test_the_base_is_the_drain_of_what_must_leave_first(
    waiting: int, max_waiting: int, run_seconds: float, slots: int, seconds: int
) -> None:
    rate = departures_per_second(None, slots, run_seconds)
    assert retry_after_seconds(Room(waiting, slots, slots), max_waiting, rate, 5) == seconds


@pytest.mark.parametrize(
    ("drain", "slots", "run_seconds", "rate"),
    [
        (0.1, 2, 2.0, 1.0),
        (3.0, 2, 2.0, 3.0),
        (0.1, 2, None, 0.1),
        (None, 2, 2.0, 1.0),
        (0.1, 0, 2.0, 0.1),
        (None, 2, None, None),
    ],
)
def test_the_quicker_of_what_was_seen_and_what_the_slots_can_do_counts(
    drain: float | None, slots: int, run_seconds: float | None, rate: float | None
) -> None:
    assert departures_per_second(drain, slots, run_seconds) == rate


def test_callers_in_a_row_are_a_departure_apart(turns: LocalTurns) -> None:
    assert [_take(turns, str(n))[0] for n in range(6)] == [15, 30, 45, 60, 75, 90]


def test_no_turn_is_later_than_the_cap_and_a_flood_leaves_no_longer_trail(turns: LocalTurns, clock: Clock) -> None:
    assert [_take(turns, str(n), most=100)[0] for n in range(40)][-1] == 300
    clock.now += 301
    assert _take(turns, "later") == (15, False)


def test_the_same_key_before_its_turn_is_told_the_same_turn(turns: LocalTurns, clock: Clock) -> None:
    _take(turns, "a")
    _take(turns, "b")
    clock.now += 5
    assert (_take(turns, "a"), _take(turns, "b")) == ((10, False), (25, False))


@pytest.mark.parametrize(("after", "returned"), [(15, True), (20, True), (21, False)])
def test_who_comes_within_the_grace_has_returned(turns: LocalTurns, clock: Clock, after: int, returned: bool) -> None:
    _take(turns, "a")
    clock.now += after
    assert _take(turns, "a")[1] is returned


@pytest.mark.parametrize(("after", "came"), [(14, False), (15, True), (20, True), (21, False)])
def test_who_is_admitted_at_its_turn_came(turns: LocalTurns, clock: Clock, after: int, came: bool) -> None:
    _take(turns, "a")
    clock.now += after
    assert turns.came("heavy", 1, "a") is came
    assert not turns.came("heavy", 1, "a")


def test_a_client_holds_so_many_turns_and_then_its_last_one(turns: LocalTurns) -> None:
    assert [_take(turns, str(n), most=3)[0] for n in range(6)] == [15, 30, 45, 45, 45, 45]
    assert _take(turns, "theirs", client=2, most=3)[0] == 60


def test_what_a_client_leaves_is_bounded(turns: LocalTurns, clock: Clock) -> None:
    for n in range(100):
        _take(turns, str(n), base=1, most=3)
        clock.now += 1
    assert len(turns._turns["heavy", 1]) <= 6


@pytest.mark.parametrize(("base", "told"), [(1, 1), (9, 9), (15, 16), (100, 109)])
def test_jitter_is_whole_seconds_on_the_long_side(turns: LocalTurns, base: float, told: int) -> None:
    assert _take(turns, "a", base=base, jitter=0.0999) == (told, False)
