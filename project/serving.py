"""From ASGI to Django's WSGI handler: short requests at WSGI's speed, on a few threads, with slow callers held off them.

A body is read on the event loop, up to a cap, before a thread is taken: who sends slowly, or for ever, holds a connection
and nothing else. Django's own ASGI handler hops threads for every synchronous middleware and view, and answers a third
as many requests.
"""

import asyncio
import io
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Whoever is refused while it sends reads the answer only if it could send: so much is read and thrown away, for so long.
DRAINED_BYTES, DRAINED_SECONDS = 8 * 1024 * 1024, 5.0


class Gone(Exception):
    """The caller went before its request was whole."""


@dataclass(frozen=True)
class Limits:
    """threads: requests in Django at once. waiting: of those that are whole, how many may wait for a thread."""

    body_bytes: Callable[[str], int]  # by path: the largest body that could be acceptable
    threads: int = 4
    waiting: int = 256
    body_seconds: float = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Headers
    body: bytes


class ThreadBridge:
    """An ASGI application around a WSGI one. `/healthz` is answered on the event loop: it says that this process lives."""

    def __init__(self, application: Application, refusal: Callable[[int], Answer], limits: Limits) -> None:
        """`refusal` makes the answer to a request that is not passed on, from a status: 408 or 503."""
        self._application = application
        self._refusal = refusal
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        self._taken = 0  # requests in Django, or waiting for a thread; of the event loop alone

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
            await _send_whole(send, scope, _alive())
            return
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await _body(receive, self._limits.body_bytes(scope["path"]))
        except Gone:
            return
        except TimeoutError:
            await _send_whole(send, scope, self._refusal(408))
            return
        if self._taken >= self._limits.threads + self._limits.waiting:
            await _send_whole(send, scope, self._refusal(503))
            return
        self._taken += 1
        try:
            await self._pass_on(scope, body, send)
        finally:
            self._taken -= 1

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


async def _body(receive: Receive, most_bytes: int) -> bytes | int:
    """The whole body; of a larger one how many bytes came, which were thrown away. Raises Gone."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            return size + await _drain(receive, message)
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
            environ[key] = f"{environ[key]},{value}" if key in environ else value
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


def _alive() -> Answer:
    request_id = uuid.uuid4().hex.encode()
    return Answer(200, [(b"content-type", b"application/json"), (b"x-request-id", request_id)], b'{"status": "ok"}')


async def _send_whole(send: Send, scope: Message, answer: Answer) -> None:
    body = b"" if scope["method"] == "HEAD" else answer.body
    headers = answer.headers
    if not any(name == b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
