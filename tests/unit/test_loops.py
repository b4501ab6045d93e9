"""Work that is held to a deadline ends in time, however it is ended, and leaves nothing; so do look-ups of names."""

import asyncio
import itertools
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import eventually
from workers import loops, names
from workers.deadlines import Deadline, DeadlineExceeded
from workers.loops import held_to, run_within


class Stopped(BaseException):
    """Stands for what ends a job."""


@pytest.fixture(autouse=True)
def nothing_remains() -> Iterator[None]:
    names._known.clear()
    before = children()
    yield
    assert no_thread_remains()
    assert children() == before


def no_thread_remains() -> bool:
    return "weighbridge-calls" not in [thread.name for thread in threading.enumerate()]


def children() -> set[str]:
    """The processes that any thread of this one started."""
    found: set[str] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            found |= set(Path(f"/proc/self/task/{thread}/children").read_text().split())
        except OSError:  # the thread has ended, and its children belong to another now
            continue
    return found


def test_without_a_deadline_work_has_all_the_time():
    assert run_within(Deadline(math.inf), lambda: asyncio.sleep(0, "done")) == "done"


def test_work_returns_its_value_and_raises_its_error():
    async def fails():
        raise KeyError("price")

    assert run_within(Deadline.after(5), lambda: asyncio.sleep(0, 42)) == 42
    with pytest.raises(KeyError, match="price"):
        run_within(Deadline.after(5), fails)


def test_work_runs_beside_a_loop_that_is_running():
    async def handler():
        return run_within(Deadline.after(5), lambda: asyncio.sleep(0, 42))

    assert asyncio.run(handler()) == 42


def test_work_that_passes_its_deadline_is_cancelled():
    with pytest.raises(DeadlineExceeded, match="did not end"):
        run_within(Deadline.after(0.01), lambda: asyncio.sleep(60))


def test_work_that_takes_a_cancel_for_another_is_cancelled_again():
    cancels = []

    async def swallows():
        for _ in range(3):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancels.append(True)

    with pytest.raises(DeadlineExceeded, match="no answer"):
        run_within(Deadline.after(30), lambda: held_to(Deadline.after(0.01), swallows(), "no answer"))
    assert cancels == [True] * 3


def test_work_that_never_gives_way_holds_its_caller_only_so_long(monkeypatch):
    monkeypatch.setattr(loops, "END_SECONDS", 0.2)
    going_on = threading.Event()

    async def blocks():
        going_on.wait(30)

    with pytest.raises(DeadlineExceeded, match="did not end"):
        run_within(Deadline.after(0.01), blocks)
    going_on.set()
    eventually(no_thread_remains)


def test_what_check_raises_ends_the_work_in_order():
    closed, checks = [], []

    async def works():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    def check():
        checks.append(True)
        if len(checks) == 3:
            raise Stopped

    with pytest.raises(Stopped):
        run_within(Deadline.after(60), works, check)
    assert closed == [True]


def test_nothing_begins_when_check_raises_first():
    def check():
        raise Stopped

    with pytest.raises(Stopped):
        run_within(Deadline.after(60), lambda: pytest.fail("it began"), check)


def resolve(host: str, seconds: float = 30.0) -> Any:
    async def look_up() -> Any:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)

    return run_within(Deadline.after(seconds), look_up)


def test_a_name_is_resolved_as_the_machine_resolves_it():
    assert resolve("localhost") == socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)


def test_a_name_that_does_not_exist_is_an_error_with_its_reason():
    with pytest.raises(socket.gaierror, match=r"\w+ \w+"):
        resolve("no-such-name.invalid")


def test_a_resolver_that_hangs_is_ended_at_the_deadline(monkeypatch):
    """Its process is seen to have run: otherwise nothing would have been ended."""
    monkeypatch.setattr(names, "RESOLVER", "import time; time.sleep(600)")
    seen, before = [], children()
    watch = threading.Thread(target=lambda: seen.append(eventually(lambda: children() - before, 5, 0.01)))
    watch.start()
    started_at = time.monotonic()
    with pytest.raises(TimeoutError):
        resolve("localhost", 1.0)
    assert time.monotonic() - started_at < 3
    watch.join(10)
    assert seen


def test_a_resolver_that_dies_is_an_error(monkeypatch):
    monkeypatch.setattr(names, "RESOLVER", "raise SystemExit(3)")
    with pytest.raises(socket.gaierror, match="without an answer"):
        resolve("localhost")


def test_addresses_are_used_again_for_a_while(monkeypatch):
    found = resolve("localhost")
    monkeypatch.setattr(names, "RESOLVER", "raise SystemExit(3)")
    assert resolve("localhost") == found
    monkeypatch.setattr(names, "NAMES_SECONDS", 0.0)
    with pytest.raises(socket.gaierror):
        resolve("localhost")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a weak reference's callback
def test_wherever_a_signal_handler_raises_the_work_ends():
    """At every step, one after another, at which Python looks for signals: a function begins, a call of C ends."""
    for step in itertools.count():
        try:
            with raising_at(step):
                value = run_within(Deadline.after(60), lambda: asyncio.sleep(0.01, "done"))
        except Stopped:
            assert no_thread_remains()
            assert run_within(Deadline.after(60), lambda: asyncio.sleep(0, "again")) == "again"
        else:
            break
    assert value == "done"
    assert step > 10


@contextmanager
def raising_at(step: int) -> Iterator[None]:
    """Stopped at that step of this thread."""
    steps = itertools.count()

    def look(frame: object, event: str, of: object) -> None:
        if event in ("call", "c_return") and next(steps) == step:
            raise Stopped

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
