"""The client: one thread, raw sockets, requests made beforehand, so that it takes little of the cores that it shares with the server.

What it took is measured with every pass: some 35 µs of processor time a request.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 30.0  # with a server that says nothing
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Unexpected(Exception):
    """A measurement that means nothing, because of what this sentence says."""


@dataclass(frozen=True)
class Answer:
    """`seconds`: from the sending of the request to the last byte of the answer."""

    status: int
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Pass:
    """So many requests over several connections, each sending its next request when it holds an answer."""

    seconds: float
    latencies: tuple[float, ...]
    client_cpu_seconds: float

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def client_share(self) -> float:
        """Of one core."""
        return self.client_cpu_seconds / self.seconds


def request(method: str, path: str, key: str = "", body: Mapping[str, object] | None = None, prefer: str = "") -> bytes:
    """The bytes of one request, to be sent any number of times."""
    raw = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {LOOPBACK}"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    lines += [f"Prefer: {prefer}"] if prefer else []
    lines += ["Content-Type: application/json", f"Content-Length: {len(raw)}"] if raw else []
    return "\r\n".join([*lines, "", ""]).encode() + raw


class Connection:
    """One kept connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((LOOPBACK, port), PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.socket.getsockname()[1]
        self._received = b""
        self._sent_at = 0.0

    def ask(self, request: bytes) -> Answer:
        self.send(request)
        while (answer := self.read()) is None:
            pass
        return answer

    def send(self, request: bytes) -> None:
        self._sent_at = time.perf_counter()
        self.socket.sendall(request)

    def read(self) -> Answer | None:
        """Waits for a piece of the answer; the answer once it is whole. Raises Unexpected."""
        try:
            more = self.socket.recv(65_536)
        except TimeoutError:
            raise Unexpected(f"The web server said nothing for {PATIENCE_SECONDS:.0f} s.") from None
        if not more:
            raise Unexpected("The web server closed a connection before its answer was whole.")
        self._received += more
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length and len(body) < int(length[1])):
            return None
        if length is None:
            raise Unexpected("The web server answered without a Content-Length.")
        self._received = b""
        return Answer(int(head[9:12]), body, time.perf_counter() - self._sent_at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.socket.close()


def drive(port: int, request: bytes, count: int, connections: int, expected: int) -> Pass:
    """Send it `count` times. Raises Unexpected when an answer has another status than expected."""
    with ExitStack() as connected, selectors.DefaultSelector() as selector:
        callers = [connected.enter_context(Connection(port)) for _ in range(min(count, connections))]
        for caller in callers:
            selector.register(caller.socket, selectors.EVENT_READ, caller)
        cpu_before, began = time.process_time(), time.perf_counter()
        for caller in callers:
            caller.send(request)
        answers = _answers(selector, request, count, len(callers))
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_before
    _refuse_others(answers, expected)
    return Pass(seconds, tuple(answer.seconds for answer in answers), cpu_seconds)


def _answers(selector: selectors.BaseSelector, request: bytes, count: int, sent: int) -> list[Answer]:
    answers: list[Answer] = []
    while len(answers) < count:
        ready = selector.select(PATIENCE_SECONDS)
        if not ready:
            raise Unexpected(f"The web server said nothing for {PATIENCE_SECONDS:.0f} s.")
        for key, _ in ready:
            answer = key.data.read()
            if answer is None:
                continue
            answers.append(answer)
            if sent < count:
                key.data.send(request)
                sent += 1
    return answers


def _refuse_others(answers: list[Answer], expected: int) -> None:
    others = Counter(answer.status for answer in answers if answer.status != expected)
    if others:
        told = next(answer.body for answer in answers if answer.status != expected)[:300]
        raise Unexpected(f"Of {len(answers)} answers not all were {expected}: {dict(others)}, as {told!r}.")
