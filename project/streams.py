"""Bodies that no memory should hold: into a sink as they come, out of a source as the caller takes them.

All waiting is done on the event loop, and all reading and writing of files in threads of their own: a disk that is slow
holds up neither.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from project.wsgi_call import Answer, Message, Sink, Source

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

GATHERED_BYTES = 262_144  # before a thread is asked to write them: who drips costs no turn for each drop
FILE_THREADS = 4
# Whoever is refused while it sends reads the answer only if it could send: so long, what comes is thrown away.
DRAINED_SECONDS = 5.0


class Broken(Exception):
    """The body ended before it was whole: its caller went, or sent what is no body."""


class Stalled(Exception):
    """The caller took nothing of its answer for too long."""


@dataclass(frozen=True)
class Pace:
    """How slowly a body may come: `bytes_per_second`, and up to `seconds` behind that, else it is a TimeoutError.

    Nobody is ahead: what came fast buys no time to be silent in later. So n bytes take n / bytes_per_second + seconds
    at the most.
    """

    seconds: float
    bytes_per_second: int

    def due(self, before: float, now: float, size_bytes: int) -> float:
        """When more must have come, after so much of what was due `before` came now. Instants of one clock."""
        return min(before + size_bytes / self.bytes_per_second, now + self.seconds)


class Files:
    """Threads that read and write."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(FILE_THREADS, "files")

    async def take_in(self, receive: Receive, sink: Sink, pace: Pace) -> int:
        """The whole body into the sink; its size. Of one larger than the sink takes, what came of it until it was
        thrown away.

        Raises Broken, TimeoutError, and OSError where it cannot be written.
        """
        clock = asyncio.get_running_loop().time
        size, gathered, ended, due = 0, bytearray(), False, clock() + pace.seconds
        async with asyncio.timeout_at(due) as limit:
            while not ended:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Broken
                piece = message.get("body", b"")
                gathered += piece
                ended = not message.get("more_body", False)
                arrived = size + len(gathered)
                if arrived > sink.most_bytes:
                    return arrived + (0 if ended else await drain(receive, sink.most_bytes))
                due = pace.due(due, clock(), len(piece))
                limit.reschedule(due)
                if ended or len(gathered) >= GATHERED_BYTES:
                    limit.reschedule(None)  # how slow our disk is, is no fault of the caller's
                    began = clock()
                    await self._in_a_thread(sink.write, bytes(gathered))
                    due += clock() - began
                    limit.reschedule(due)
                    size, gathered = arrived, bytearray()
        return size

    async def send_out(self, send: Send, source: Source, taking_seconds: float) -> None:
        """Piece by piece, each once the server has taken the one before it. Raises Stalled where that takes longer."""
        while piece := await self._in_a_thread(source.read, GATHERED_BYTES):
            try:
                async with asyncio.timeout(taking_seconds):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError:
                raise Stalled from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def tell(self, answer: Answer) -> None:
        """That it is the one that is sent."""
        await self._in_a_thread(answer.told)

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
