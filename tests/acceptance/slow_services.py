"""Services of this machine that answer, hang or misbehave, and count how many requests they have at once."""

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

ANSWER = b'{"answer": 42}'
Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Behaviour = Callable[[bytes, Reader, Writer], Awaitable[None]]


@dataclass
class Counts:
    """Requests at once, now and at most; `heads` are what each sent before its body."""

    now: int = 0
    most: int = 0
    connections: int = 0
    open_connections: int = 0

    def __post_init__(self) -> None:
        self.heads: list[bytes] = []

    @property
    def requests(self) -> int:
        return len(self.heads)


class Services:
    """with Services() as services: url, counts = services.add(behaviour)"""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="services", daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def add(self, behave: Behaviour, counts: Counts | None = None, **options: object) -> tuple[str, Counts]:
        """Its address, and what it counts, or counts together with others. options are asyncio.start_server's."""
        counts = counts or Counts()
        started: Future[int] = asyncio.run_coroutine_threadsafe(self._listen(behave, counts, options), self._loop)
        scheme = "https" if options.get("ssl") else "http"
        return f"{scheme}://127.0.0.1:{started.result(10)}", counts

    async def _listen(self, behave: Behaviour, counts: Counts, options: dict[str, object]) -> int:
        async def serve(reader: Reader, writer: Writer) -> None:
            counts.connections += 1
            counts.open_connections += 1
            try:
                await _one_request(behave, counts, reader, writer)
            except (OSError, asyncio.CancelledError):  # the client went away, or the test is over
                pass
            finally:
                counts.open_connections -= 1
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)  # type: ignore[arg-type]
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])


async def _one_request(behave: Behaviour, counts: Counts, reader: Reader, writer: Writer) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return
    for _ in range(2):  # one turn of the loop sees what the kernel has, one acts on it
        await asyncio.sleep(0)
    if reader.at_eof():
        return  # the client went before its request was looked at; its place may be another's by now
    counts.heads.append(head)
    counts.now += 1
    counts.most = max(counts.most, counts.now)
    try:
        await behave(head, reader, writer)
    finally:
        counts.now -= 1
    writer.close()  # after the count: a client may call again as soon as it has its answer
    await writer.wait_closed()


def answer(body: bytes = ANSWER, status: str = "200 OK", kind: str = "application/json", headers: str = "") -> bytes:
    length = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}"
    return f"HTTP/1.1 {status}\r\n{length}\r\n".encode() + body


def answering(after_seconds: float = 0.0, **parts: object) -> Behaviour:
    """Answers after a time, which stands for its work, and stops when its client goes meanwhile."""

    async def behave(head: bytes, reader: Reader, writer: Writer) -> None:
        try:
            async with asyncio.timeout(after_seconds):
                await hanging(head, reader, writer)
                return
        except TimeoutError:
            pass
        writer.write(answer(**parts))  # type: ignore[arg-type]

    return behave


async def hanging(head: bytes, reader: Reader, writer: Writer) -> None:
    """Never answers; the request lasts until the client goes."""
    while await reader.read(65_536):
        pass


async def dripping(head: bytes, reader: Reader, writer: Writer) -> None:
    """A byte every 50 ms, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.05)


async def resetting(head: bytes, reader: Reader, writer: Writer) -> None:
    """Ends the connection without a word."""
    writer.transport.abort()


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One behaviour per request; the last stays."""
    left = list(behaviours)

    async def behave(head: bytes, reader: Reader, writer: Writer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(head, reader, writer)

    return behave


def connections_to(*urls: str) -> int:
    """How many sockets of this process are connected to these addresses, as the kernel has it."""
    ports = {int(url.rpartition(":")[2]) for url in urls}
    return sum(_peer_port(int(fd)) in ports for fd in os.listdir("/proc/self/fd"))


def _peer_port(fd: int) -> int | None:
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            return None
        with socket.socket(fileno=os.dup(fd)) as copy:
            peer = copy.getpeername()
    except OSError:  # gone meanwhile, or not connected
        return None
    return int(peer[1]) if isinstance(peer, tuple) else None
