"""Bodies that no memory should hold: into a sink as they come, out of a source as the caller takes them.

All waiting is done on the event loop, and all reading and writing of files in threads of their own: a disk that is slow holds up neither.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from project.wsgi_call import Message, Sink, Source

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

GATHERED_BYTES = 262_144  # before a thread is asked to write them: who drips costs no turn for each drop
FILE_THREADS = 4
# Whoever is refused while it sends reads the answer only if it could send: so long, what comes is thrown away.
DRAINED_SECONDS = 5.0


class Broken(Exception):
    """The body ended before it was whole: its caller went, or sent what is no body."""


@dataclass(frozen=True)
class Pace:
    """A body must come within `seconds`, and one more for each `bytes_per_second` that came of it; else it is a TimeoutError."""

    seconds: float
    bytes_per_second: int

    def allowed(self, size_bytes: int) -> float:
        return self.seconds + size_bytes / self.bytes_per_second


class Files:
    """Threads that read and write."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(FILE_THREADS, "files")

    async def take_in(self, receive: Receive, sink: Sink, pace: Pace) -> int:
        """The whole body into the sink; its size. Of one larger than the sink takes, what came of it until it was thrown away.

        Raises Broken, TimeoutError, and OSError where it cannot be written.
        """
        size, gathered, ended = 0, bytearray(), False
        async with asyncio.timeout(pace.seconds) as limit:
            begun = asyncio.get_running_loop().time()
            while not ended:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Broken
                gathered += message.get("body", b"")
                ended = not message.get("more_body", False)
                arrived = size + len(gathered)
                if arrived > sink.most_bytes:
                    return arrived + (0 if ended else await drain(receive, sink.most_bytes))
                limit.reschedule(begun + pace.allowed(arrived))
                if ended or len(gathered) >= GATHERED_BYTES:
                    await self._in_a_thread(sink.write, bytes(gathered))
                    size, gathered = arrived, bytearray()
        return size

    async def send_out(self, send: Send, source: Source) -> None:
        """Piece by piece, each once the server has taken the one before it."""
        while piece := await self._in_a_thread(source.read, GATHERED_BYTES):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def close(self, one: Sink | Source) -> None:
        await asyncio.shield(self._in_a_thread(one.close))  # also while the request itself is being given up

    def stop(self) -> None:
        self._threads.shutdown(wait=False)

    def _in_a_thread(self, do: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)


async def drain(receive: Receive, most_bytes: int) -> int:
    """Read and throw away, so much and so long at the most; how much it was."""
    drained, more = 0, True
    try:
        async with asyncio.timeout(DRAINED_SECONDS):
            while more and drained <= most_bytes:
                message = await receive()
                drained += len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        pass
    return drained
