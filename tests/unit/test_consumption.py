"""A Celery that consumes nothing beside work is noticed after a minute, never for Redis's absence (P24)."""

from dataclasses import replace

import pytest

from workers.consumption import Consumption, Sight

STUCK = Sight(wake_ups=3, claimable=3, free_processes=1, starts=5)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _after(seconds: int, sight: Sight = STUCK, last_restart: float | None = None) -> bool:
    """Whether it says so at last, seen once a second."""
    clock = _Clock()
    consumption = Consumption(last_restart, clock)
    said = False
    for clock.now in range(seconds + 1):  # noqa: B007
        said = consumption.has_stopped(sight)
    return said


@pytest.mark.parametrize(("seconds", "said"), [(59, False), (60, True)])
def test_a_minute_is_enough(seconds: int, said: bool) -> None:
    assert _after(seconds) is said


@pytest.mark.parametrize(
    "change",
    [{"wake_ups": None}, {"wake_ups": 0}, {"claimable": 0}, {"free_processes": 0}],
    ids=["broker away", "no wake-ups", "nothing to claim", "all busy"],
)
def test_each_condition_alone_keeps_it_quiet(change: dict[str, int | None]) -> None:
    assert not _after(200, replace(STUCK, **change))  # type: ignore[arg-type]


def test_a_start_begins_the_minute_anew() -> None:
    clock = _Clock()
    consumption = Consumption(None, clock)
    for second in range(200):
        clock.now = second
        assert not consumption.has_stopped(replace(STUCK, starts=second // 50))


@pytest.mark.parametrize(("last_restart", "said"), [(-541.0, True), (-539.0, False)])
def test_at_most_once_in_ten_minutes(last_restart: float, said: bool) -> None:
    assert _after(60, last_restart=last_restart) is said
