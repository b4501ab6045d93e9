"""Two and ten times what a class can do: as much is done, what is accepted is started, and nobody is crowded out.

The times are short; --full makes each phase a minute.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime

import pytest

from stack.local import Stack
from tests.acceptance.figures import counted
from tests.acceptance.overload.callers import Caller
from tests.acceptance.overload.conftest import SLOTS
from tests.acceptance.overload.done import Done, clock, done
from tests.waiting import eventually
from workers.planning.queueing import predict

pytestmark = pytest.mark.timeout(900)  # the minutes of --full

RUN_SECONDS = 1.0
CAPACITY = SLOTS / RUN_SECONDS  # jobs a second, a little more than can really be done
SETTLES_SECONDS = 3.0  # until a phase shows what it is
ALL_CAME_SECONDS = 12.0  # until a crowd that came at one instant comes one by one


@pytest.fixture(scope="module")
def seconds(full: bool) -> float:
    return 60.0 if full else 6.0


@pytest.fixture(scope="module", autouse=True)
def measured(stack: Stack, large: Caller) -> None:
    """What its jobs take is measured from twenty on: before, nothing is known of the work that waits (P5)."""
    assert large.send(CAPACITY, 6.0, RUN_SECONDS).refused_share == 0
    eventually(lambda: large.class_view("light")["estimated_wait_seconds"]["p50"] is not None, 30)
    eventually(lambda: _empty(large, "light"), 30)


def _empty(caller: Caller, cost_class: str) -> bool:
    view = caller.class_view(cost_class)
    return bool(view["waiting"] == view["running"] == 0)


@contextmanager
def _phase(stack: Stack, seconds: float) -> Iterator[list[datetime]]:
    """The instants between which it is looked at, once the body has ended."""
    seen: list[datetime] = []
    with ThreadPoolExecutor(1) as beside:

        def watch() -> None:
            time.sleep(SETTLES_SECONDS)
            seen.append(clock(stack))
            time.sleep(seconds)
            seen.append(clock(stack))

        watching = beside.submit(watch)
        yield seen
        watching.result()


def test_at_twice_and_ten_times_the_capacity_as_much_is_done_as_at_its_peak(
    stack: Stack, large: Caller, seconds: float, full: bool
) -> None:
    """95 % of the peak, over minutes; of phases of six seconds each, one after the other, what else the machine does takes some from one of them."""
    goodput: dict[float, Done] = {}
    for times in (1.2, 2.0, 10.0):
        with _phase(stack, seconds) as between:
            told = large.send(times * CAPACITY, SETTLES_SECONDS + seconds, RUN_SECONDS)
        since, until = between
        goodput[times] = done(stack, "light", since, until)
        print(f"offered {times} times: {goodput[times].per_second:.2f}/s done, refused {told.refused_share:.0%}")
    eventually(lambda: _empty(large, "light"), 30)
    peak = max(phase.per_second for phase in goodput.values())
    assert peak > 0.8 * CAPACITY
    for times in (2.0, 10.0):
        assert goodput[times].per_second >= (0.95 if full else 0.85) * peak


def test_at_twice_the_capacity_hardly_any_that_was_accepted_expires_as_it_does_without_the_bound(
    stack: Stack, large: Caller, seconds: float
) -> None:
    """Side by side: a class bounded by its work, and one that is not (P5)."""
    began = clock(stack)
    with ThreadPoolExecutor(2) as both:
        for cost_class in ("light", "heavy"):
            both.submit(large.send, 2 * CAPACITY, 2 * seconds, RUN_SECONDS, cost_class)
    ended = clock(stack)
    for cost_class in ("light", "heavy"):
        eventually(lambda name=cost_class: _empty(large, name), 30)  # type: ignore[misc]
    bounded, unbounded = (_expired(done(stack, name, began, ended)) for name in ("light", "heavy"))
    print(f"of the accepted expired: {bounded:.1%} with the bound, {unbounded:.1%} without")
    assert bounded < 0.05
    assert unbounded > 0.10, "else the bound would not be needed"


def _expired(phase: Done) -> float:
    return phase.states["expired"] / phase.states.total()


@pytest.mark.parametrize("clients", [1, 2, 5])
def test_those_who_come_back_when_they_are_told_to_are_admitted_nine_times_of_ten(
    stack: Stack, large: Caller, crowd: list[Caller], seconds: float, clients: int, full: bool
) -> None:
    """P10, in a closed population of twice what the class has room for. The class keeps places for one client, and beside others its share does."""

    def returned(admitted: str) -> float:
        return counted(stack, "jobs_returned_total", cost_class="light", admitted=admitted)

    if clients == 2 and not full:
        pytest.skip("--full tries two clients too.")
    with ExitStack() as all_of_them:
        for caller in crowd[:clients]:
            all_of_them.enter_context(caller.obeying(60 // clients, RUN_SECONDS, rest_seconds=1.0))
        time.sleep(ALL_CAME_SECONDS)
        before = returned("true"), returned("false")
        time.sleep(2 * seconds)  # they live so long
    admitted, refused = returned("true") - before[0], returned("false") - before[1]
    print(f"of {admitted + refused:.0f} that came when they were told to {admitted:.0f} were admitted")
    assert admitted + refused >= 10
    assert admitted / (admitted + refused) >= (0.9 if full else 0.8), "of a few tens chance takes some"
    eventually(lambda: _empty(large, "light"), 60)


def test_a_small_client_beside_a_crowd_is_hardly_refused_and_waits_as_with_its_share_of_the_slots(
    stack: Stack, large: Caller, small: Caller, seconds: float
) -> None:
    """P10a, P11: 32 callers of another client obey their Retry-After; this one asks for a fifth of the class."""
    assert small.submit(0).status_code == 202  # so it was seen, and the crowd has its share from the beginning
    began = clock(stack)
    with large.obeying(32, RUN_SECONDS, rest_seconds=0.5) as crowd:
        eventually(lambda: crowd.refused.total() > 0, 20)
        told = small.send(0.2 * CAPACITY, 2 * seconds, RUN_SECONDS)
        eventually(lambda: done(stack, "light", began, clock(stack), "small").states["queued"] == 0, 20)
    own = done(stack, "light", began, clock(stack), "small")
    p95 = own.waits[int(0.95 * (len(own.waits) - 1))]
    fair = predict(0.2 * CAPACITY, RUN_SECONDS, SLOTS // 2, 100).p95_wait_seconds
    print(
        f"small: {told.asked} asked, {told.refused_share:.0%} refused, p95 {p95:.2f} s of {fair:.2f} s; crowd: {crowd.refused_share:.0%} refused"
    )
    assert told.refused_share < 0.05
    assert p95 <= fair
    eventually(lambda: _empty(large, "light"), 60)
