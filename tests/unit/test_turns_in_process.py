"""Turns while Redis is away, and the rate that spaces them (P10)."""

import math
import random
from collections import Counter

import pytest

from jobs.capacity import Room, departures_per_second, most_kept, retry_after_seconds
from jobs.turns import in_process
from jobs.turns.book import Caller, Refusal, Seen
from jobs.turns.in_process import InProcess


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> InProcess:
    return InProcess(clock)


def _take(
    turns: InProcess,
    key: str | None,
    client: int = 1,
    base: float = 15,
    spacing: float = 15.0,
    jitter: float = 0.0,
    most: int = 8,
    over_share: bool = False,
) -> int:
    return turns.take("heavy", Caller(client, key), Refusal(base, spacing, 15.0, jitter, most, over_share)).seconds


def _arrive(turns: InProcess, key: str | None, client: int = 1, departures: int = 4) -> Seen:
    return turns.arrive("heavy", Caller(client, key), departures)


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
        (0.49, 2, 2.0, 1.0),
        (0.5, 2, 2.0, 0.5),
        (0.9, 2, 2.0, 0.9),
        (3.0, 2, 2.0, 3.0),
        (0.1, 2, None, 0.1),
        (None, 2, 2.0, 1.0),
        (0.1, 0, 2.0, 0.1),
        (None, 2, None, None),
    ],
)
def test_what_was_measured_counts_unless_the_slots_had_not_enough_to_do(
    drain: float | None, slots: int, run_seconds: float | None, rate: float | None
) -> None:
    assert departures_per_second(drain, slots, run_seconds) == rate


@pytest.mark.parametrize(
    ("max_waiting", "most"), [(0, 0), (1, 0), (7, 0), (8, 4), (16, 8), (40, 8), (100, 20), (10_000, 2_000)]
)
def test_a_fifth_of_the_waiting_room_may_be_kept_of_a_small_one_up_to_half(max_waiting: int, most: int) -> None:
    assert most_kept(max_waiting) == most


def test_callers_in_a_row_are_a_departure_apart(turns: InProcess) -> None:
    assert [_take(turns, str(n)) for n in range(6)] == [15, 30, 45, 60, 75, 90]


def test_no_turn_is_later_than_the_cap_and_a_flood_leaves_no_longer_trail(turns: InProcess, clock: Clock) -> None:
    assert [_take(turns, str(n), most=100) for n in range(40)][-1] == 300
    clock.now += 301
    assert _take(turns, "later") == 15


def test_the_same_key_before_its_turn_is_told_the_same_turn(turns: InProcess, clock: Clock) -> None:
    _take(turns, "a")
    _take(turns, "b")
    clock.now += 5
    assert (_take(turns, "a"), _take(turns, "b")) == (10, 25)


@pytest.mark.parametrize(("after", "returned"), [(14, False), (15, True), (20, True), (21, False)])
@pytest.mark.parametrize("key", ["a", None])
def test_who_comes_at_its_turn_or_within_the_grace_has_returned_and_has_it_no_longer(
    turns: InProcess, clock: Clock, key: str | None, after: int, returned: bool
) -> None:
    _take(turns, key)
    clock.now += after
    assert _arrive(turns, key).returned is returned
    assert not _arrive(turns, key).returned


def test_a_turn_is_its_callers_alone_and_one_without_a_key_any_of_its_clients(turns: InProcess, clock: Clock) -> None:
    for key in ("a", None, None):
        _take(turns, key, base=1, spacing=1)
    clock.now += 5
    strangers = [_arrive(turns, "b"), _arrive(turns, "a", client=2), _arrive(turns, None, client=2)]
    assert not any(arrival.returned for arrival in strangers)
    assert [_arrive(turns, key).returned for key in (None, "a", None, None, "a")] == [True, True, True, False, False]


def test_turns_are_near_that_come_within_so_many_departures_or_came_within_the_grace(
    turns: InProcess, clock: Clock
) -> None:
    assert _arrive(turns, "new") == Seen()
    for n in range(6):
        _take(turns, str(n), base=60)  # at 60, 75, … 135; four departures take 60 s
    assert _arrive(turns, "new", departures=4).near == 1
    clock.now += 30
    assert [_arrive(turns, "new", departures=most).near for most in (0, 1, 2, 4, 100)] == [0, 0, 1, 3, 6]
    clock.now += 30
    assert _arrive(turns, "0").returned
    assert _arrive(turns, "new", departures=4).near == 4
    clock.now += 75 + 6
    assert _arrive(turns, "new", departures=4).near == 0, "nobody is waited for longer than the grace"


def test_someone_is_expected_until_the_last_grace_is_over(turns: InProcess, clock: Clock) -> None:
    assert not turns.anyone_expected("heavy")
    _take(turns, "a")
    assert (turns.anyone_expected("heavy"), turns.anyone_expected("light")) == (True, False)
    clock.now += 20
    assert turns.anyone_expected("heavy")
    clock.now += 1
    assert not turns.anyone_expected("heavy")


def test_a_client_holds_so_many_turns_and_then_its_last_one(turns: InProcess) -> None:
    assert [_take(turns, str(n), most=3) for n in range(6)] == [15, 30, 45, 45, 45, 45]
    assert _take(turns, "theirs", client=2, most=3) == 60


def test_what_a_client_leaves_is_bounded(turns: InProcess, clock: Clock) -> None:
    for n in range(100):
        _take(turns, str(n), base=1, most=3)
        clock.now += 1
    left = turns._of_client["heavy", 1]
    assert len(left.entries) == len(left.by_at) == len(left.by_until) <= 6
    assert len(turns._of_class["heavy"].line.to_come) <= 6


def test_as_many_turns_are_near_as_a_count_of_all_of_them_would_say(
    turns: InProcess, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "NEWEST_COUNTS", 0.0)  # for each of them a place is kept, whoever comes
    chance, counted = random.Random(3), Counter[int]()
    told, until = dict[tuple[int, str], float](), dict[tuple[int, str], float]()
    for _ in range(4_000):
        clock.now += chance.choice([0, 0, 1, 3])
        client, key, departures = chance.choice([1, 2]), chance.choice("abcdefghijkl"), chance.choice([0, 1, 4])
        mine = client, key
        seen = _arrive(turns, key, client, departures)
        assert seen.returned is (told.get(mine, math.inf) <= clock.now <= until.get(mine, 0.0))
        if seen.returned:
            del told[mine]
        else:
            near = sum(-5 <= at - clock.now <= 15 * departures for at in told.values())
            assert seen.near == near
            counted[near] += 1
        seconds = _take(turns, key, client, spacing=chance.choice([0, 2]), most=100)
        if told.get(mine) != clock.now + seconds:
            told[mine], until[mine] = clock.now + seconds, clock.now + seconds + max(5.0, 0.25 * seconds)
    assert len(counted) > 8, counted


def test_for_as_many_turns_of_a_client_something_is_kept_as_it_lately_came_at(turns: InProcess, clock: Clock) -> None:
    def kept_of_ten() -> int:
        for n in range(10):
            _take(turns, f"{clock.now}-{n}", base=1, spacing=0, most=100)
        return _arrive(turns, "new", client=2).near

    assert kept_of_ten() == 10
    clock.now += 60
    kept = kept_of_ten()
    assert 0 < kept < 5, "ten in a row did not come"
    clock.now += 60
    assert kept_of_ten() < kept
    clock.now += 1
    for n in range(10):
        assert _arrive(turns, f"{clock.now - 1}-{n}").returned
    assert kept_of_ten() > 5


@pytest.mark.parametrize(("base", "told"), [(1, 1), (9, 9), (15, 16), (100, 109)])
def test_jitter_is_whole_seconds_on_the_long_side(turns: InProcess, base: float, told: int) -> None:
    assert _take(turns, "a", base=base, jitter=0.0999) == told


def test_who_has_its_share_has_turns_of_its_own_for_which_nothing_is_kept(turns: InProcess, clock: Clock) -> None:
    own = [_take(turns, str(n), base=1, spacing=30, over_share=True) for n in range(3)]
    assert own == [1, 31, 61]
    assert _take(turns, "a", client=2, base=1) == 1
    assert _arrive(turns, "new", client=3, departures=8).near == 1
    clock.now += 1
    assert _arrive(turns, "0").returned
