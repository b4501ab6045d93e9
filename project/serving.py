"""From ASGI to Django's WSGI handler: short requests at WSGI's speed, on a few threads, with slow callers held off them.

A body is read on the event loop, up to a cap and for a while, before a thread is taken: who sends slowly holds a connection and
what it has sent, but no thread. Django's own ASGI handler hops threads for every synchronous middleware and view, and answers a third
as many requests.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Whoever is refused while it sends reads the answer only if it could send: so much is read and thrown away, for so long.
DRAINED_BYTES, DRAINED_SECONDS = 8 * 1024 * 1024, 5.0


class Broken(Exception):
    """The body ended before it was whole: its caller went, or sent what is no body."""


class Full(Exception):
    """Bodies hold all the memory that they may."""


@dataclass(frozen=True)
class Limits:
    """threads: requests in Django at once. waiting: of those that are whole, how many may wait for a thread, and how long.

    body_bytes: by path, the largest body that could be acceptable. held_bytes: of all bodies at once. refuses_by_length: whether Django says of a longer one
    that it is too long, from its length alone; where it would not look, the answer is ours.
    """

    body_bytes: Callable[[str], int]
    refuses_by_length: Callable[[str], bool]
    threads: int = 4
    waiting: int = 256
    wait_seconds: float = 2.0
    body_seconds: float = 30.0
    held_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes


class ThreadBridge:
    """An ASGI application around a WSGI one. `/healthz` is answered on the event loop: it says that this process lives."""

    def __init__(self, application: Application, own_answer: Callable[[int, str], Answer], limits: Limits) -> None:
        """`own_answer` makes the answer to a request that is not passed on, from a status and the X-Request-Id given.

        200 is /healthz; 400, 408, 413 and 503 are refusals.
        """
        self._application = application
        self._own_answer = own_answer
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        self._free = asyncio.Semaphore(limits.threads)
        # Touched by the event loop alone.
        self._waiting = 0  # for a thread
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await asyncio.to_thread(self._threads.shutdown)  # what is being answered is answered
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz" and scope["method"] in {"GET", "HEAD"}:
            status: int | None = 200
        else:
            with self._holding() as hold:
                status = await self._refused_or_passed_on(scope, receive, send, hold)
        if status is not None:
            await _send_whole(send, scope, self._own_answer(status, _request_id(scope)))

    @contextmanager
    def _holding(self) -> Iterator[Callable[[int], None]]:
        """`hold(bytes)` counts them until the request is over. Raises Full."""
        held = 0

        def hold(more: int) -> None:
            nonlocal held
            if self._held + more > self._limits.held_bytes:
                raise Full
            self._held += more
            held += more

        try:
            yield hold
        finally:
            self._held -= held

    async def _refused_or_passed_on(
        self, scope: Message, receive: Receive, send: Send, hold: Callable[[int], None]
    ) -> int | None:
        """The status of a refusal; None once Django's answer was sent."""
        path = scope["path"]
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await _body(receive, self._limits.body_bytes(path), hold)
        except TimeoutError:
            return 408
        except Broken:
            return 400
        except Full:
            return 503
        if isinstance(body, int) and not self._limits.refuses_by_length(path):
            return 413
        if not await self._got_a_thread():
            return 503
        try:
            await self._pass_on(scope, body, send)
        finally:
            self._free.release()
        return None

    async def _got_a_thread(self) -> bool:
        if self._waiting >= self._limits.waiting and self._free.locked():
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _pass_on(self, scope: Message, body: bytes | int, send: Send) -> None:
        loop = asyncio.get_running_loop()

        def emit(message: Message) -> None:
            """From the thread; it waits until the server has taken the message, so that nothing piles up."""
            asyncio.run_coroutine_threadsafe(_sent(send, message), loop).result()

        whole = await loop.run_in_executor(self._threads, _run, self._application, environ_of(scope, body), emit)
        if whole is not None:
            await _send_whole(send, scope, whole)


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
            return size + await _drain(receive, message)
        hold(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _drain(receive: Receive, message: Message) -> int:
    drained = 0
    try:
        async with asyncio.timeout(DRAINED_SECONDS):
            while message.get("more_body", False) and drained <= DRAINED_BYTES:
                message = await receive()
                drained += len(message.get("body", b""))
    except TimeoutError:
        pass
    return drained


def environ_of(scope: Message, body: bytes | int) -> dict[str, Any]:
    """The request as WSGI has it. Of a body that was too large only the length is passed on, for it to be refused by."""
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("", 0))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body if isinstance(body, bytes) else b""),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    declared = _add_headers(environ, scope["headers"])
    # Said anew: a body that came in chunks has no length of its own.
    environ["CONTENT_LENGTH"] = str(len(body)) if isinstance(body, bytes) else declared or str(body)
    return environ


def _add_headers(environ: dict[str, Any], headers: Headers) -> str:
    """The declared length of the body; empty if there was none."""
    declared = ""
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").upper(), raw_value.decode("latin-1")
        if name == "CONTENT-LENGTH":
            declared = value
        elif name == "CONTENT-TYPE":
            environ["CONTENT_TYPE"] = value
        # X_Y would be taken for X-Y, which a proxy in front may guard; a body in chunks is whole by now.
        elif "_" not in name and name != "TRANSFER-ENCODING":
            key = f"HTTP_{name.replace('-', '_')}"
            between = "; " if name == "COOKIE" else ","  # HTTP/2 sends each cookie by itself
            environ[key] = f"{environ[key]}{between}{value}" if key in environ else value
    return declared


def _run(application: Application, environ: dict[str, Any], emit: Callable[[Message], None]) -> Answer | None:
    """In a thread: the answer, if it came in one piece; one of several is sent piece by piece."""
    started: list[tuple[int, Headers]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        started[:] = [(int(status[:3]), raw)]

    response = application(environ, start_response)
    try:
        return _emitted(iter(response), started, emit)
    finally:
        close = getattr(response, "close", None)
        if close is not None:
            close()


def _emitted(pieces: Any, started: list[tuple[int, Headers]], emit: Callable[[Message], None]) -> Answer | None:
    first, second = next(pieces, b""), next(pieces, None)
    status, headers = started[0]
    if second is None:
        return Answer(status, headers, first)
    emit({"type": "http.response.start", "status": status, "headers": headers})
    for piece in (first, second):
        emit({"type": "http.response.body", "body": piece, "more_body": True})
    for piece in pieces:
        emit({"type": "http.response.body", "body": piece, "more_body": True})
    emit({"type": "http.response.body", "body": b"", "more_body": False})
    return None


def _request_id(scope: Message) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")


async def _send_whole(send: Send, scope: Message, answer: Answer) -> None:
    body = b"" if scope["method"] == "HEAD" else answer.body
    headers = answer.headers
    if answer.status == 304:  # a length of 0 would be that of the answer that is not sent again
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    elif not any(name == b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
