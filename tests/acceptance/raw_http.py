"""One request over one connection, byte by byte, for callers that no HTTP library would play."""

import json
import socket
from types import TracebackType
from typing import Any, Self

from stack.local import Stack
from tests.published_schema import must_be_published


class RawRequest:
    """Of the stack's own client. Nothing is sent before somebody sends it."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def __enter__(self) -> Self:
        self.connection = socket.create_connection(("127.0.0.1", self._stack.port), timeout=30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def head(self, method: str, path: str, *headers: str, key: str | None = None) -> None:
        self._asked = method, path
        always = (f"Host: 127.0.0.1:{self._stack.port}", f"Authorization: Bearer {key or self._stack.key}")
        self.send("\r\n".join([f"{method} {path} HTTP/1.1", *always, *headers, "", ""]).encode())

    def send(self, some: bytes) -> None:
        self.connection.sendall(some)

    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers by lower-case name, and the JSON of the answer that comes, which must be as it is published."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += self._more()
        head, _, body = raw.partition(b"\r\n\r\n")
        status, headers = _parsed(head)
        while len(body) < int(headers["content-length"]):
            body += self._more()
        told = body[: int(headers["content-length"])]
        must_be_published(*self._asked, status, headers, told)
        return status, headers, json.loads(told)

    def _more(self) -> bytes:
        more = self.connection.recv(65_536)
        assert more, "the connection ended before the answer was whole"
        return more


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}
