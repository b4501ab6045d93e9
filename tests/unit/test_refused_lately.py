"""Who was refused lately is remembered for a minute, by class, and of a thousand clients (P10a)."""

from types import SimpleNamespace

import pytest

from jobs import refused_lately
from jobs.refused_lately import MOST_CLIENTS, RefusedLately


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(refused_lately, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def test_a_client_is_remembered_for_a_minute_since_it_was_refused_last(clock: Clock) -> None:
    lately = RefusedLately()
    lately.note("light", 1)
    clock.now += 40
    lately.note("light", 2)
    lately.note("light", 1)
    lately.note("heavy", 3)
    clock.now += 59
    assert (lately.of("light"), lately.of("heavy"), lately.of("huge")) == ([1, 2], [3], [])
    clock.now += 1
    assert (lately.of("light"), lately.of("heavy")) == ([], [])


def test_one_that_another_process_refused_is_remembered_from_then_on(clock: Clock) -> None:
    lately = RefusedLately()
    lately.note("light", 1, seconds_ago=59)
    lately.note("light", 2)
    lately.note("light", 2, seconds_ago=30)  # which is no news
    assert lately.of("light") == [1, 2]
    clock.now += 1
    assert lately.of("light") == [2]
    clock.now += 58
    assert lately.of("light") == [2]


def test_of_more_than_it_holds_whoever_was_refused_longest_ago_is_forgotten(clock: Clock) -> None:
    lately = RefusedLately()
    for number in range(MOST_CLIENTS + 1):
        lately.note("light", number)
    assert lately.of("light") == list(range(1, MOST_CLIENTS + 1))
