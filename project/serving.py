"""From ASGI to Django's WSGI handler: short requests at WSGI's speed, on a few threads, with slow callers held off them.

A body is read on the event loop, up to a cap and for a while, before a thread is taken: who sends slowly holds a connection and
what it has sent, but no thread. Django's own ASGI handler hops threads for every synchronous middleware and view, and answers a third
as many requests.

A file that is sent here is no body to hold in memory: its request is asked a first time without it, so that a stranger is refused before
anything is read; then the body goes into the sink that the answer bears, and the request is asked once more. A file that is sent from here is read
as its caller takes it. Neither holds a thread while it waits for its caller.

A caller who would rather wait for a later answer holds no thread either: its request is asked a first time, waits on the event loop, and is
asked once more. The first answer is kept for when there is no better one.

However often a request is asked, it has one id, and only the answer that is sent is told of.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from project.places import Places, Share, Taken
from project.streams import Broken, Files, Pace, Receive, Send, Stalled, drain
from project.wsgi_call import Answer, Application, Hold, Message, Sink, environ_of, run

REQUEST_ID = b"x-request-id"
# Whoever is refused while it sends reads the answer only if it could send: so much is read and thrown away.
DRAINED_BYTES, DRAINED_OF_A_STREAM_BYTES = 8 * 1024 * 1024, 256 * 1024 * 1024


A = TypeVar("A", Answer, Answer | None)


class Full(Exception):
    """Bodies hold all the memory that they may."""


@dataclass(frozen=True)
class Limits:
    """threads: requests in Django at once. waiting: of those that are whole, how many may wait for a thread, and how long.

    again_seconds: how long one that was held waits for a thread, since all who wait for one job are told at once.
    body_bytes: by path, the largest body that could be acceptable. held_bytes: of all bodies at once. refuses_by_length: whether Django says of a longer one
    that it is too long, from its length alone; where it would not look, the answer is ours. streams: by method and path, whether the
    body goes into a sink; pace: how fast it must come; streamed: how many may be on their way at once, and how many of one owner, so that one whose
    many files come slowly leaves places for others. sent: the same of files that go out; taking_seconds: how long a piece of one may be on its way.
    stored: how many whole bodies at once are passed on, to be written where they stay: a slow disk must leave threads for others;
    storing_seconds: how long one waits for that.
    """

    body_bytes: Callable[[str], int]
    refuses_by_length: Callable[[str], bool]
    threads: int = 4
    waiting: int = 256
    wait_seconds: float = 2.0
    again_seconds: float = 10.0
    body_seconds: float = 30.0
    stop_seconds: float = 8.0
    held_bytes: int = 64 * 1024 * 1024
    streams: Callable[[str, str], bool] = lambda method, path: False
    pace: Pace = Pace(30.0, 16_384)
    streamed: Share = Share(128, 32)
    sent: Share = Share(128, 32)
    taking_seconds: float = 30.0
    stored: int = 2
    storing_seconds: float = 30.0


class Keys(NamedTuple):
    """Where a request's environ has what is not of its caller.

    `waited`: of one that is asked once more, its hold. `arrived`: of one whose body comes into a sink, that, or None as long as it has not come.
    `earlier`: the record of the answer before; None at first, which says that records are told by us.
    """

    waited: str = "waited"
    arrived: str = "arrived"
    earlier: str = "earlier"


KEYS = Keys()


class ThreadBridge:
    """An ASGI application around a WSGI one. `/healthz` is answered on the event loop: it says that this process lives."""

    def __init__(
        self,
        application: Application,
        own_answer: Callable[[int, str], Answer],
        limits: Limits,
        keys: Keys = KEYS,
        named: Callable[[str], str] = lambda given: given,
        when_told_to_stop: Callable[[Callable[[], object]], None] = lambda act: None,
    ) -> None:
        """`own_answer` makes the answer to a request that is not passed on, from a status and the request's id.

        200 is /healthz; 400, 408, 413, 429 and 503 are refusals. `named` makes that id of the X-Request-Id that was given, "" if none was. `when_told_to_stop`
        is given what to call when this process is to end: a server that lets requests be answered first says so in ASGI's lifespan
        only when none is left.
        """
        self._keys, self._named = keys, named
        self._when_told_to_stop = when_told_to_stop
        self._application = application
        self._own_answer = own_answer
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        self._files = Files()
        self._free = asyncio.Semaphore(limits.threads)
        self._may_store = asyncio.Semaphore(min(limits.stored, limits.threads))
        # Touched by the event loop alone.
        self._waiting = 0  # for a thread
        self._held_bytes = 0  # of bodies
        self._streamed = Places(limits.streamed)  # bodies on their way into sinks
        self._sent = Places(limits.sent)  # and out of sources
        self._stopping = False
        self._answering: set[asyncio.Event] = set()  # one for each request; set, it waits no longer for a better answer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer_in_time(_with_id(scope, self._named), receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._when_told_to_stop(lambda: loop.call_soon_threadsafe(self._wait_no_longer))
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self._stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _stop(self) -> None:
        """What is being answered is answered."""
        self._wait_no_longer()
        until = asyncio.get_running_loop().time() + self._limits.stop_seconds
        while self._answering and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
        self._threads.shutdown(wait=False)
        self._files.stop()

    def _wait_no_longer(self) -> None:
        """Who waits is told what is known."""
        self._stopping = True
        for no_longer in self._answering:
            no_longer.set()

    async def _answer_in_time(self, scope: Message, receive: Receive, send: Send) -> None:
        no_longer = asyncio.Event()
        self._answering.add(no_longer)
        try:
            answer = await self._answer(scope, receive, send, no_longer)
            if answer is not None and answer.source is not None:
                await self._send_from_source(send, scope, answer)
            elif answer is not None:
                await _send_whole(send, scope, answer)
        finally:
            self._answering.discard(no_longer)

    async def _answer(self, scope: Message, receive: Receive, send: Send, no_longer: asyncio.Event) -> Answer | None:
        """None if nobody is left to be answered, or all was sent piece by piece."""
        if scope["path"] == "/healthz" and scope["method"] in {"GET", "HEAD"}:
            return self._own(scope, 200)
        if not _plainly_sent(scope):
            return self._own(scope, 400)
        if self._limits.streams(scope["method"], scope["path"]):
            return await self._streamed_in(scope, receive, send)
        with self._holding() as hold_bytes:
            first = await self._refused_or_passed_on(scope, receive, send, hold_bytes)
        if first is None or first.hold is None:
            return first
        try:
            return await self._held(scope, receive, send, first, first.hold, no_longer)
        finally:
            first.hold.release()

    async def _streamed_in(self, scope: Message, receive: Receive, send: Send) -> Answer | None:
        if not await self._got_a_thread():
            return await self._refused_unread(scope, receive, self._own(scope, 503))
        first = await self._pass_on({**environ_of(scope, 0), self._keys.arrived: None}, send)
        if first is None or first.sink is None:
            return await self._refused_unread(scope, receive, first)
        try:
            size = await self._taken_in(scope, receive, first.sink, first.owner)
            if isinstance(size, Answer):
                return size
            arrived = {self._keys.arrived: first.sink, self._keys.earlier: first.record}
            return await self._stored(scope, send, environ_of(scope, size) | arrived)
        finally:
            await self._files.close(first.sink)

    async def _stored(self, scope: Message, send: Send, environ: dict[str, Any]) -> Answer | None:
        if not await _got(self._may_store, self._limits.storing_seconds):
            return self._own(scope, 503)
        try:
            if not await self._got_one_within(self._limits.again_seconds):
                return self._own(scope, 503)
            return await self._pass_on(environ, send)
        finally:
            self._may_store.release()

    async def _refused_unread(self, scope: Message, receive: Receive, answer: A) -> A:
        """Who waits for leave to send (Expect: 100-continue) has sent nothing, and is not asked to."""
        if not any(name == b"expect" for name, _ in scope["headers"]):
            await drain(receive, DRAINED_OF_A_STREAM_BYTES)
        return answer

    async def _taken_in(self, scope: Message, receive: Receive, sink: Sink, owner: Hashable) -> int | Answer:
        """How much came; a refusal, if not all of it could."""
        try:
            with self._streamed.one_of(owner):
                return await self._files.take_in(receive, sink, self._limits.pace)
        except Taken as taken:
            return await self._refused_unread(scope, receive, self._own(scope, taken.status))
        except TimeoutError:
            return self._own(scope, 408)
        except Broken:
            return self._own(scope, 400)
        except OSError:  # the disk is full
            await drain(receive, DRAINED_OF_A_STREAM_BYTES)
            return self._own(scope, 503)

    async def _send_from_source(self, send: Send, scope: Message, answer: Answer) -> None:
        assert answer.source is not None
        try:
            with self._sent.one_of(answer.owner):
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
                if scope["method"] == "HEAD":
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                else:
                    await self._files.send_out(send, answer.source, self._limits.taking_seconds)
        except Taken as taken:
            await _send_whole(send, scope, self._own(scope, taken.status))
        except Stalled:  # the server sees an answer that is not whole, and closes the connection
            pass
        finally:
            await self._files.close(answer.source)

    def _own(self, scope: Message, status: int) -> Answer:
        return self._own_answer(status, _request_id(scope))

    @contextmanager
    def _holding(self) -> Iterator[Callable[[int], None]]:
        """`hold(bytes)` counts them until the request is over. Raises Full."""
        held = 0

        def hold(more: int) -> None:
            nonlocal held
            if self._held_bytes + more > self._limits.held_bytes:
                raise Full
            self._held_bytes += more
            held += more

        try:
            yield hold
        finally:
            self._held_bytes -= held

    async def _refused_or_passed_on(
        self, scope: Message, receive: Receive, send: Send, hold_bytes: Callable[[int], None]
    ) -> Answer | None:
        path = scope["path"]
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await _body(receive, self._limits.body_bytes(path), hold_bytes)
        except TimeoutError:
            return self._own(scope, 408)
        except Broken:
            return self._own(scope, 400)
        except Full:
            return self._own(scope, 503)
        if isinstance(body, int) and not self._limits.refuses_by_length(path):
            return self._own(scope, 413)
        if not await self._got_a_thread():
            return self._own(scope, 503)
        return await self._pass_on(environ_of(scope, body), send)

    async def _got_a_thread(self) -> bool:
        if self._waiting >= self._limits.waiting and self._free.locked():
            return False
        self._waiting += 1
        try:
            return await self._got_one_within(self._limits.wait_seconds)
        finally:
            self._waiting -= 1

    async def _got_one_within(self, seconds: float) -> bool:
        return await _got(self._free, seconds)

    async def _pass_on(self, environ: dict[str, Any], send: Send, rather: Answer | None = None) -> Answer | None:
        """In the thread that it got. `rather`: what is said if this fails."""
        loop = asyncio.get_running_loop()
        environ = {self._keys.earlier: None, **environ}

        def emit(message: Message) -> None:
            """From the thread; it waits until the server has taken the message, so that nothing piles up."""
            asyncio.run_coroutine_threadsafe(_sent(send, message), loop).result()

        try:
            return await loop.run_in_executor(self._threads, run, self._application, environ, emit, rather)
        finally:
            self._free.release()

    async def _held(
        self, scope: Message, receive: Receive, send: Send, first: Answer, hold: Hold, no_longer: asyncio.Event
    ) -> Answer | None:
        loop = asyncio.get_running_loop()
        hold.ended.add_done_callback(lambda ended: loop.call_soon_threadsafe(no_longer.set))
        has_left = asyncio.create_task(_until_gone(receive))
        has_left.add_done_callback(lambda task: no_longer.set())
        if self._stopping:
            no_longer.set()
        try:
            async with asyncio.timeout(hold.seconds):
                await no_longer.wait()
        except TimeoutError:
            pass
        if self._stopping:  # a connection that we close ourselves has not been left
            has_left.cancel()
            return await loop.run_in_executor(self._threads, first.told)
        if has_left.done():
            await loop.run_in_executor(self._threads, _left, first, hold)
            return None
        has_left.cancel()
        return await self._asked_again(scope, send, first, hold)

    async def _asked_again(self, scope: Message, send: Send, first: Answer, hold: Hold) -> Answer | None:
        """The first answer if now there is none, or a failure: it is still true."""
        if not await self._got_one_within(self._limits.again_seconds):
            return await asyncio.get_running_loop().run_in_executor(self._threads, first.told)
        waited = {self._keys.waited: hold, self._keys.earlier: first.record}
        return await self._pass_on(environ_of(scope, b"") | waited, send, rather=first)


def _left(first: Answer, hold: Hold) -> None:
    hold.caller_left()
    if first.record is not None:
        first.record.left()


async def _got(one_of: asyncio.Semaphore, within_seconds: float) -> bool:
    try:
        async with asyncio.timeout(within_seconds):
            await one_of.acquire()
    except TimeoutError:
        return False
    return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(send: Send, message: Message) -> None:
    await send(message)


async def _body(receive: Receive, most_bytes: int, hold: Callable[[int], None]) -> bytes | int:
    """The whole body; of a larger one how many bytes came, which were thrown away. Raises Broken, and what hold raises."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Broken
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            return size + (await drain(receive, DRAINED_BYTES) if message.get("more_body", False) else 0)
        hold(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _plainly_sent(scope: Message) -> bool:
    """In chunks and in no other coding: what only we would take for the body as it is, a proxy in front may take for another."""
    codings = [value.strip().lower() for name, value in scope["headers"] if name == b"transfer-encoding"]
    return codings in ([], [b"chunked"])


def _with_id(scope: Message, named: Callable[[str], str]) -> Message:
    """The request with one X-Request-Id, for all that is made of it."""
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == REQUEST_ID]
    others = [header for header in scope["headers"] if header[0] != REQUEST_ID]
    return {**scope, "headers": [*others, (REQUEST_ID, named(",".join(given)).encode("latin-1"))]}


def _request_id(scope: Message) -> str:
    return str(next(value for name, value in scope["headers"] if name == REQUEST_ID).decode("latin-1"))


async def _send_whole(send: Send, scope: Message, answer: Answer) -> None:
    body = b"" if scope["method"] == "HEAD" else answer.body
    headers = answer.headers
    if answer.status == 304:  # a length of 0 would be that of the answer that is not sent again
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    elif not any(name == b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
