"""The testing kit ends a handler when a worker would, by a clock that only the test moves."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jobs import classes
from tests.unit.kit_types import HOW, Params, long, patient, run_doing, sized, waits
from workers import JobCancelled, JobContext
from workers.by_hand import Refused
from workers.testing import Again, FakeClock, Stop, run

LIMIT_GRACE = 5.0  # the default
STOP_GRACE = 30.0
BACKOFF = 40.0  # the default base


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    HOW.clear()


# ── Limits, cancel, stop ─────────────────────────────────────────────────────────────────────────────────────────────


def test_remaining_follows_the_fake_clock_and_check_ends_it() -> None:
    clock, seen = FakeClock(now=1000), []

    def counts(ctx: JobContext[Params]) -> None:
        while True:
            seen.append(ctx.remaining())
            ctx.check()
            clock.advance(3)

    ran = run_doing(counts, clock=clock)
    assert seen == [8, 5, 2]
    assert (ran.state, ran.error_code, ran.seconds, ran.killed) == ("failed", "timeout", 8, False)
    assert ran.decision == Stop("not_retryable")


@pytest.mark.parametrize(
    ("timeout", "deadline", "code", "seconds"),
    [(2, None, "timeout", 2), (2, 5, "timeout", 2), (None, 5, "deadline", 5), (None, 8, "deadline", 8)],
)
def test_the_limit_is_the_sooner_of_timeout_and_deadline(
    timeout: float | None, deadline: float | None, code: str, seconds: float
) -> None:
    clock = FakeClock()
    ran = run_doing(lambda ctx: clock.sleep(60), clock=clock, timeout=timeout, deadline=deadline)
    assert (ran.error_code, ran.seconds) == (code, seconds)


def test_a_limit_is_the_classs_where_the_type_names_none() -> None:
    assert run(sized, {"n": 1}).result == classes.get("light").timeout_seconds
    assert run(sized, {"n": 10}).result == classes.get("heavy").timeout_seconds


@pytest.mark.parametrize("times", [{"timeout": 31}, {"timeout": 0.05}, {"deadline": 0}])
def test_times_that_the_door_would_refuse_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(Refused):
        run_doing(lambda ctx: None, **times)


def test_real_sleeps_can_be_made_to_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    ran = run_doing(lambda ctx: time.sleep(7), clock=clock)
    assert (ran.state, ran.seconds) == ("succeeded", 7)


def test_a_handler_that_never_sleeps_comes_to_its_limit_by_ticks() -> None:
    looks = []

    def loops(ctx: JobContext[Params]) -> None:
        while True:
            ctx.check()
            looks.append(1)

    assert run_doing(loops, clock=FakeClock(tick=1)).error_code == "timeout"
    assert len(looks) == 7


def test_a_timeout_that_is_swallowed_is_one_all_the_same() -> None:
    clock = FakeClock()

    def swallows(ctx: JobContext[Params]) -> str:
        try:
            clock.sleep(60)
        except BaseException:
            clock.sleep(LIMIT_GRACE - 0.1)
        return "done"

    ran = run_doing(swallows, clock=clock)
    assert (ran.error_code, ran.result, ran.killed, ran.seconds) == ("timeout", None, False, 8 + LIMIT_GRACE - 0.1)


def test_what_does_not_end_inside_the_grace_is_ended() -> None:
    clock, lines = FakeClock(), []

    def will_not_end(ctx: JobContext[Params]) -> str:
        for line in range(4):
            try:
                clock.sleep(60)
            except BaseException as error:
                lines.append((line, type(error).__name__, clock.now))
        return "done"

    ran = run_doing(will_not_end, clock=clock)
    assert (ran.error_code, ran.killed, ran.seconds) == ("timeout", True, 8 + LIMIT_GRACE)
    assert lines == [(0, "JobTimeout", 8), *((n, "ProcessEnded", 13) for n in (1, 2, 3))]


def test_a_timeout_is_retried_where_the_type_lists_it() -> None:
    clock = FakeClock()
    HOW["do"] = lambda ctx: clock.sleep(60)
    ran = run(patient, clock=clock)
    assert (ran.state, ran.error_code, ran.decision) == ("queued", "timeout", Again(BACKOFF))


def test_what_had_to_be_ended_is_retried_as_a_timeout_is() -> None:
    clock = FakeClock()

    def swallows(ctx: JobContext[Any]) -> str:
        for _ in range(2):
            with contextlib.suppress(BaseException):
                clock.sleep(60)
        return "done"

    HOW["do"] = swallows
    ran = run(patient, clock=clock)
    assert (ran.state, ran.killed, ran.decision) == ("queued", True, Again(BACKOFF))


def test_a_cancel_comes_when_it_is_asked_for_and_wins() -> None:
    clock, seen = FakeClock(), []

    def runs(ctx: JobContext[Params]) -> str:
        seen.append(ctx.cancelled)
        try:
            clock.sleep(60)
        except JobCancelled:
            seen.append(ctx.cancelled)
        return "done"

    ran = run_doing(runs, clock=clock, cancel_at=3)
    assert (ran.state, ran.result, ran.error_code, ran.seconds) == ("cancelled", None, "", 3)
    assert seen == [False, True]


@pytest.mark.parametrize(("ends", "state"), [(2.9, "succeeded"), (3.0, "cancelled")])
def test_a_success_before_the_cancel_stays_one(ends: float, state: str) -> None:
    clock = FakeClock()
    assert run_doing(lambda ctx: clock.sleep(ends), clock=clock, cancel_at=3).state == state


def test_a_handler_may_go_on_after_the_stop_until_the_grace_is_over() -> None:
    clock, seen = FakeClock(), []

    def runs(ctx: JobContext[Params]) -> str:
        while not ctx.stopping:
            clock.sleep(1)
        seen.append(clock.now)
        return "saved"

    ran = run_doing(runs, clock=clock, stop_at=3)
    assert (ran.state, ran.result, seen) == ("succeeded", "saved", [3])


def test_what_goes_on_past_the_stops_grace_is_released_without_blame() -> None:
    clock = FakeClock()
    HOW["do"] = lambda ctx: clock.sleep(600)
    ran = run(long, clock=clock, stop_at=3)
    assert (ran.state, ran.decision, ran.failures, ran.killed, ran.seconds) == ("queued", None, 0, True, 3 + STOP_GRACE)


def test_a_coroutine_is_run_and_limited_too() -> None:
    HOW["clock"] = clock = FakeClock()
    assert run(waits, clock=clock).result == "waited"
    HOW["seconds"] = 60
    assert run(waits, clock=clock).error_code == "timeout"


def test_one_clock_serves_several_runs() -> None:
    clock = FakeClock()
    assert run_doing(lambda ctx: clock.sleep(6), clock=clock).state == "succeeded"
    clock.advance(60)  # nobody's limit
    assert run_doing(lambda ctx: clock.sleep(6), clock=clock).state == "succeeded"


def test_a_clock_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="cannot advance"):
        FakeClock().advance(-1)


# ── Coroutines ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _sleeping(seconds: float, seen: list[str]) -> Any:
    async def sleeps(ctx: JobContext[Params]) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "slept"

    return sleeps


def test_a_coroutine_sleeps_on_the_clock() -> None:
    seen: list[str] = []
    ran = run_doing(_sleeping(5, seen))
    assert (ran.state, ran.result, ran.seconds, seen) == ("succeeded", "slept", 5.0, [])


@pytest.mark.parametrize(
    ("asked", "state", "seconds"),
    [({}, "failed", 8.0), ({"cancel_at": 2.0}, "cancelled", 2.0)],
    ids=["limit", "cancel"],
)
def test_a_coroutine_is_cancelled_at_its_limit_and_for_its_cancel(
    asked: dict[str, float], state: str, seconds: float
) -> None:
    """As on a worker: asyncio.run cancels it."""
    seen: list[str] = []
    ran = run_doing(_sleeping(60, seen), **asked)
    assert (ran.state, ran.seconds, seen) == (state, seconds, ["cancelled"])


def test_coroutines_side_by_side_take_the_time_of_the_longest() -> None:
    async def both(ctx: JobContext[Params]) -> tuple[str, str]:
        return await asyncio.gather(asyncio.sleep(3, "a"), asyncio.sleep(1, "b"))

    ran = run_doing(both)
    assert (ran.result, ran.seconds) == (["a", "b"], 3.0)
