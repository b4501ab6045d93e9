"""Requests that want a thread: so many at once, so many that wait, and none that waits long."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from project.limits import Limits
from project.places import Share
from project.request_threads import RequestThreads
from project.serving import ThreadBridge
from tests.unit.http_wire import Wire, ask, bridge, echo, part, scope


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_healthz_needs_no_thread_and_no_body(method: str) -> None:
    """While every thread is held, and before the request is whole."""
    with _held(threads=1, waiting=Share(0, 0)) as (asked, hold):

        async def both() -> Wire:
            held = asyncio.ensure_future(hold())
            while not asked._threads.turns.all_taken:
                await asyncio.sleep(0.005)
            wire = Wire()
            await asked(scope(method, "/healthz", {"X-Request-Id": "mine"}), wire.receive, wire.send)
            await held
            return wire

        wire = asyncio.run(asyncio.wait_for(both(), 20))
    assert (wire.status, wire.headers["x-request-id"]) == (200, "mine")
    assert wire.body == (b"ours" if method == "GET" else b"")


def test_more_than_may_wait_are_refused_at_once() -> None:
    """One thread, one waiting: the third is told to come back, and the first two are answered."""
    with _held(threads=1, waiting=Share(1, 1)) as (asked, hold):

        async def three() -> tuple[Wire, Wire]:
            first = asyncio.ensure_future(hold())
            while not asked._threads.turns.all_taken:
                await asyncio.sleep(0.005)
            waiting, third = Wire(part(b"w")), Wire(part(b"t"))
            second = asyncio.ensure_future(asked(scope(), waiting.receive, waiting.send))
            while asked._threads.waiting.taken < 1:
                await asyncio.sleep(0.005)
            await asked(scope(), third.receive, third.send)
            await asyncio.gather(first, second)
            return waiting, third

        waiting, third = asyncio.run(asyncio.wait_for(three(), 20))
    assert (third.status, third.body) == (503, b"ours")
    assert (waiting.status, waiting.body) == (200, b"w")


def test_nobody_waits_long_for_a_thread() -> None:
    with _held(threads=1, waiting=Share(5, 5), wait_seconds=0.05) as (asked, hold):

        async def both() -> Wire:
            first = asyncio.ensure_future(hold())
            while not asked._threads.turns.all_taken:
                await asyncio.sleep(0.005)
            waiting = Wire(part(b"w"))
            await asked(scope(), waiting.receive, waiting.send)
            await first
            return waiting

        waiting = asyncio.run(asyncio.wait_for(both(), 20))
    assert (waiting.status, waiting.body) == (503, b"ours")


def test_who_asks_for_many_at_once_leaves_turns_for_others() -> None:
    """Of four that may wait two may be one owner's; of whoever is there already none is put off."""

    async def scene() -> None:
        threads = RequestThreads(echo, Limits(lambda path: 1000, lambda path: True, threads=1, waiting=Share(4, 2)))
        try:
            assert await threads.got_one("large", 5)
            first, second = (asyncio.create_task(threads.got_one("large", 5)) for _ in range(2))
            await asyncio.sleep(0)
            assert not await threads.got_one("large", 5)
            other = asyncio.create_task(threads.got_one("small", 5))
            await asyncio.sleep(0)
            assert (threads.waiting.taken, other.done()) == (3, False)
            for turn in (first, other, second):
                threads.turns.give_back()
                assert await turn
            assert threads.waiting.taken == 0
        finally:
            threads.stop()

    asyncio.run(asyncio.wait_for(scene(), 20))


class _held:
    """A bridge, and a coroutine that holds one of its threads until the next turns of the loop are over."""

    def __init__(self, **limits: Any) -> None:
        self._begun, self._go = threading.Event(), threading.Event()
        self._bridge = bridge(self._answer, **limits)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/held":
            self._begun.set()
            self._go.wait(10)
        return echo(environ, start_response)

    async def _hold(self) -> None:
        wire = Wire(part(b""))
        held = asyncio.ensure_future(self._bridge(scope(path="/held"), wire.receive, wire.send))
        while not self._begun.is_set():
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.2, self._go.set)
        await held

    def __enter__(self) -> tuple[ThreadBridge, Callable[[], Awaitable[None]]]:
        return self._bridge, self._hold

    def __exit__(self, *error: object) -> None:
        self._go.set()


def test_at_shutdown_what_is_being_answered_is_answered() -> None:
    """The server is told that the application has ended only after that."""
    begun, answered = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        begun.set()
        time.sleep(0.2)  # the work itself
        answered.set()
        return echo(environ, start_response)

    async def stopped_meanwhile() -> Wire:
        asking = asyncio.ensure_future(asked(scope(), Wire(part(b"")).receive, Wire().send))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        server = Wire({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        await asked({"type": "lifespan"}, server.receive, server.send)
        assert answered.is_set()
        await asking
        return server

    asked = bridge(slow)
    server = asyncio.run(asyncio.wait_for(stopped_meanwhile(), 20))
    assert [message["type"] for message in server.sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(RuntimeError):
        ask(asked, scope(), part(b""))
