"""Files on their way: no client has all the places, nobody is slow for ever, and a slow disk leaves threads for others."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import pytest

from project import asgi
from project.limits import Limits
from project.places import Share
from project.serving import ThreadBridge
from project.streams import Pace
from project.wsgi_call import Answer

Message = dict[str, Any]
T = TypeVar("T")
BOUND_SECONDS = 20


def request(owner: str = "a", method: str = "POST", path: str = "/files") -> Message:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(b"x-owner", owner.encode())],
        "http_version": "1.1",
    }


class Caller:
    """Sends these pieces of a body, and then nothing. What it is told is in `status` and `pieces`."""

    def __init__(self, *pieces: bytes, whole: bool = True) -> None:
        last = len(pieces) - 1 if whole else -1
        self._messages = [
            {"type": "http.request", "body": piece, "more_body": number != last} for number, piece in enumerate(pieces)
        ]
        self.silent = asyncio.Event()  # all that it sends was read
        self.status, self.pieces = 0, list[bytes]()

    async def receive(self) -> Any:
        if not self._messages:
            self.silent.set()
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.pieces += [message["body"]] if "body" in message else []


class Memory:
    """A sink and a source."""

    most_bytes = 1000

    def __init__(self, content: bytes = b"") -> None:
        self.content, self.closed = content, threading.Event()

    def write(self, some: bytes) -> int:
        self.content += some
        return len(some)

    def read(self, most_bytes: int) -> bytes:
        piece, self.content = self.content[:1], self.content[1:]
        return piece

    def close(self) -> None:
        self.closed.set()


class Told(list[bytes]):
    """A WSGI response that bears more than its body."""


class Application:
    """Takes a file by POST, for whom X-Owner says, and gives one by GET."""

    def __init__(self, content: bytes = b"xyz") -> None:
        self.files: list[Memory] = []
        self._content = content
        self.storing = lambda: None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        answer: Any = Told([b"plain"])
        if environ["PATH_INFO"] == "/files":
            answer.owner = environ["HTTP_X_OWNER"]
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/files" and environ["REQUEST_METHOD"] == "GET":
            answer.source = self._file(self._content)
        elif environ.get("arrived"):
            self.storing()
        elif environ["PATH_INFO"] == "/files":
            answer.sink = self._file(b"")
        return answer  # type: ignore[no-any-return]

    def _file(self, content: bytes) -> Memory:
        self.files.append(Memory(content))
        return self.files[-1]


def bridge(application: Application, **limits: Any) -> ThreadBridge:
    streams = lambda method, path: method == "POST" and path == "/files"  # noqa: E731
    return ThreadBridge(
        application,
        lambda status, request_id: Answer(status, [], b""),
        Limits(lambda path: 1000, lambda path: True, streams=streams, **limits),
    )


def play(part: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(part, BOUND_SECONDS))


async def answered(asked: ThreadBridge, caller: Caller, given: Message) -> int:
    await asked(given, caller.receive, caller.send)
    return caller.status


# ── How many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_whose_uploads_are_slow_keeps_no_other_client_from_sending() -> None:
    asked = bridge(Application(), streamed=Share(4, 2))

    async def scene() -> list[int]:
        slow = [Caller(b"x", whole=False) for _ in range(2)]
        going = [asyncio.ensure_future(answered(asked, one, request("a"))) for one in slow]
        for one in slow:
            await one.silent.wait()
        seen = [await answered(asked, Caller(b"x"), request(owner)) for owner in "ab"]
        for task in going:
            task.cancel()
        await asyncio.wait(going)
        return [*seen, await answered(asked, Caller(b"x"), request("a"))]

    assert play(scene()) == [429, 200, 200]


def test_a_client_that_takes_files_slowly_keeps_no_other_client_from_taking_any() -> None:
    application = Application()
    asked = bridge(application, sent=Share(4, 1))

    async def scene() -> list[int]:
        stuck = asyncio.Event()
        slow = asyncio.ensure_future(asked(request("a", "GET"), Caller(b"").receive, _never(stuck)))
        await stuck.wait()
        seen = [await answered(asked, Caller(b""), request(owner, "GET")) for owner in "ab"]
        slow.cancel()
        await asyncio.wait([slow])
        return seen

    assert play(scene()) == [429, 200]
    assert all(file.closed.wait(5) for file in application.files)


def _never(taking: asyncio.Event) -> Callable[[Any], Awaitable[None]]:
    """A server whose caller takes nothing but the head of an answer."""

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            taking.set()
            await asyncio.Event().wait()

    return send


def test_too_many_at_once_are_told_so_in_a_sentence() -> None:
    answer = asgi._own_answer(429, "")
    told = json.loads(answer.body)
    assert (told["code"], told["retryable"], (b"retry-after", b"1") in answer.headers) == (
        "too_many_transfers",
        True,
        True,
    )
    assert "32 files" in told["detail"]


# ── How slowly ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "now", "size_bytes", "due"),
    [
        (30.0, 0.0, 0, 30.0),  # nothing more came
        (30.0, 10.0, 100, 40.0),  # ten seconds' worth after ten seconds
        (30.0, 10.0, 50, 35.0),  # half of it
        (30.0, 1.0, 1_000_000, 31.0),  # far ahead buys nothing
    ],
)
def test_a_body_may_be_so_far_behind_its_pace_and_never_ahead(
    before: float, now: float, size_bytes: int, due: float
) -> None:
    assert Pace(30.0, 10).due(before, now, size_bytes) == due


def test_what_came_fast_buys_no_time_to_be_silent_in() -> None:
    """At a byte a second, 500 of them would have bought eight minutes."""
    asked = bridge(Application(), pace=Pace(0.2, 1))
    assert play(answered(asked, Caller(b"x" * 500, whole=False), request())) == 408


def test_who_takes_nothing_of_its_file_is_given_up() -> None:
    application = Application()
    asked = bridge(application, taking_seconds=0.2)

    async def scene() -> None:
        await asked(request("a", "GET"), Caller(b"").receive, _never(asyncio.Event()))

    play(scene())
    assert application.files[0].closed.is_set()
    assert asked._transfers.going.taken == 0


# ── How slow the disk is ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_slow_disk_leaves_threads_for_others() -> None:
    application, written, begun = Application(), threading.Event(), threading.Semaphore(0)
    asked = bridge(application, threads=2, stored=1)

    def slow_disk() -> None:
        begun.release()
        written.wait(BOUND_SECONDS)

    application.storing = slow_disk

    async def scene() -> tuple[int, list[int]]:
        files = [asyncio.ensure_future(answered(asked, Caller(b"x"), request())) for _ in range(3)]
        await asyncio.to_thread(begun.acquire)
        plain = await answered(asked, Caller(b""), request(method="GET", path="/"))
        written.set()
        return plain, list(await asyncio.gather(*files))

    assert play(scene()) == (200, [200, 200, 200])


# ── How many threads ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_files_that_come_at_once_wait_for_their_turn_rather_than_be_refused() -> None:
    """Twenty, where a thread looks at one at a time, and for others it would be too long to wait: what has sent nothing yet holds nothing."""
    application = Application()
    asked = bridge(application, threads=1, wait_seconds=0.02)
    looked = application.__call__

    def slowly(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        time.sleep(0.01)  # the work itself
        return looked(environ, start_response)

    asked._threads._application = slowly

    async def scene() -> list[int]:
        return list(await asyncio.gather(*(answered(asked, Caller(b"x"), request()) for _ in range(20))))

    assert play(scene()) == [200] * 20
