"""A caller that would rather wait for a later answer holds no thread, and gets the first one if there is no better (P38)."""

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from project.limits import Limits
from project.serving import ThreadBridge
from tests.unit.http_wire import GONE, Wire, own_answer, part, scope


@dataclass
class Hold:
    seconds: float = 30.0
    ended: "Future[None]" = field(default_factory=Future)
    told: list[str] = field(default_factory=list)

    def caller_left(self) -> None:
        self.told.append("left")

    def release(self) -> None:
        self.told.append("released")


class Body(list[bytes]):
    """A response with a hold."""

    hold: Hold


class Jobs:
    """A WSGI application: 202 and a hold at first, then what it was told to say."""

    def __init__(self, hold: Hold, then: str = "200 OK") -> None:
        self.hold, self.then = hold, then
        self.asked: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.asked.append(environ)
        if "waited" in environ:
            start_response(self.then, [])
            return [b"second"]
        start_response("202 Accepted", [])
        body = Body([b"first"])
        body.hold = self.hold
        return body


def bridge(jobs: Any, **limits: Any) -> ThreadBridge:
    return ThreadBridge(jobs, own_answer, Limits(lambda path: 1000, lambda path: True, **limits))


class Line(Wire):
    """A wire whose caller may go when the test says so."""

    def __init__(self) -> None:
        super().__init__(part(b"{}"))
        self.gone = asyncio.Event()

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.gone.wait()
        return GONE


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def run(scene: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scene, 20))


def test_the_second_answer_comes_when_what_is_waited_for_has_ended() -> None:
    jobs = Jobs(Hold())

    async def scene() -> Line:
        line, asked = Line(), bridge(jobs)
        answering = asyncio.create_task(asked(scope(), line.receive, line.send))
        await until(lambda: jobs.asked)
        assert line.sent == []
        threading.Thread(target=lambda: jobs.hold.ended.set_result(None)).start()
        await answering
        return line

    line = run(scene())
    assert (line.status, line.body) == (200, b"second")
    assert jobs.asked[1]["waited"] is jobs.hold
    assert jobs.asked[1]["wsgi.input"].read() == b""
    assert jobs.hold.told == ["released"]


def test_the_second_answer_comes_when_the_time_is_over() -> None:
    jobs = Jobs(Hold(seconds=0.05), then="202 Accepted")

    async def scene() -> Line:
        line = Line()
        await bridge(jobs)(scope(), line.receive, line.send)
        return line

    line = run(scene())
    assert (line.status, line.body, jobs.hold.told) == (202, b"second", ["released"])


def test_the_first_answer_is_true_still_when_there_is_no_second() -> None:
    jobs = Jobs(Hold(seconds=0.05), then="503 Service Unavailable")

    async def scene() -> Line:
        line = Line()
        await bridge(jobs)(scope(), line.receive, line.send)
        return line

    line = run(scene())
    assert (line.status, line.body) == (202, b"first")


def test_a_caller_that_leaves_is_told_of_and_not_answered() -> None:
    jobs = Jobs(Hold())

    async def scene() -> Line:
        line = Line()
        answering = asyncio.create_task(bridge(jobs)(scope(), line.receive, line.send))
        await until(lambda: jobs.asked)
        line.gone.set()
        await answering
        return line

    line = run(scene())
    assert (line.sent, jobs.hold.told, len(jobs.asked)) == ([], ["left", "released"], 1)


def test_who_waits_is_told_what_is_known_when_the_server_stops() -> None:
    """A connection that we close ourselves has not been left (P38)."""
    jobs = Jobs(Hold())

    async def scene() -> Line:
        line, asked = Line(), bridge(jobs)
        answering = asyncio.create_task(asked(scope(), line.receive, line.send))
        await until(lambda: jobs.asked)
        lifespan = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        told: list[Any] = []

        async def receive() -> Any:
            return next(lifespan)

        async def send(message: Any) -> None:
            told.append(message["type"])

        await asked({"type": "lifespan"}, receive, send)
        assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert answering.done(), "it was answered before the server is gone"
        return line

    line = run(scene())
    assert (line.status, line.body, jobs.hold.told) == (202, b"first", ["released"])


def test_who_waits_holds_no_thread() -> None:
    """One thread, ten callers who wait, and one who does not."""
    hold = Hold()

    class Both(Jobs):
        def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/short":
                start_response("200 OK", [])
                return [b"short"]
            return super().__call__(environ, start_response)

    jobs = Both(hold)

    async def scene() -> list[Line]:
        asked = bridge(jobs, threads=1, wait_seconds=5.0)
        lines = [Line() for _ in range(10)]
        waiting = [asyncio.create_task(asked(scope(), line.receive, line.send)) for line in lines]
        await until(lambda: len(jobs.asked) == 10)
        short = Line()
        await asked(scope(path="/short"), short.receive, short.send)
        assert short.body == b"short"
        hold.ended.set_result(None)
        await asyncio.gather(*waiting)
        return lines

    assert [line.body for line in run(scene())] == [b"second"] * 10


def test_a_request_that_is_given_up_while_it_waits_leaves_no_task_behind() -> None:
    """Nobody listens any more for a caller whose request is over; its hold is released."""
    jobs = Jobs(Hold())

    async def scene() -> set[asyncio.Task[Any]]:
        line, before = Line(), asyncio.all_tasks()
        answering = asyncio.create_task(bridge(jobs)(scope(), line.receive, line.send))
        await until(lambda: len(asyncio.all_tasks() - before) == 2)  # it, and who listens whether its caller goes
        answering.cancel()
        await asyncio.wait([answering])
        await asyncio.sleep(0)  # the turn in which what was cancelled with it ends
        return asyncio.all_tasks() - before

    assert run(scene()) == set()
    assert jobs.hold.told == ["released"]
