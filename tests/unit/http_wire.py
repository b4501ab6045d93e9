"""The wire between a server and the bridge: what was received over it, and what was told to be sent."""

import asyncio
from collections.abc import Iterable
from typing import Any

from project.limits import Limits
from project.serving import ThreadBridge
from project.wsgi_call import Answer

Message = dict[str, Any]
ECHO_HEADERS = [("Content-Type", "text/plain")]


def scope(method: str = "POST", path: str = "/a", headers: dict[str, str] | None = None, query: str = "") -> Message:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("10.0.0.9", 4711),
    }


def part(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


class Wire:
    """What the server receives, in order, and what it was told to send. After the last message a caller is silent."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.sent: list[Message] = []
        self.read = 0

    async def receive(self) -> Message:
        if not self._messages:
            await asyncio.Event().wait()
        self.read += 1
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def echo(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", ECHO_HEADERS)
    return [environ["wsgi.input"].read()]


def own_answer(status: int, request_id: str) -> Answer:
    return Answer(status, [(b"x-request-id", request_id.encode())], b"ours")


def bridge(application: Any = echo, *, body_bytes: int = 1000, **limits: Any) -> ThreadBridge:
    return ThreadBridge(
        application, own_answer, Limits(lambda path: body_bytes, lambda path: path != "/form", **limits)
    )


def ask(asked: ThreadBridge, given: Message, *messages: Message) -> Wire:
    wire = Wire(*messages)
    asyncio.run(asyncio.wait_for(asked(given, wire.receive, wire.send), 20))
    return wire


def never(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    raise AssertionError("it was passed on")
