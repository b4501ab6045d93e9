"""Bodies that are read whole before a thread is taken: bounded in size and time, and in what all of them hold at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from project.limits import Limits
from project.places import Places, Refused, Taken
from project.streams import Broken, Receive, drain
from project.wsgi_call import Message

# Whoever is refused while it sends reads the answer only if it could send: so much is read and thrown away.
DRAINED_BYTES = 8 * 1024 * 1024


class Bodies:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = Places(limits.held)

    @asynccontextmanager
    async def whole(self, scope: Message, receive: Receive, owner: Hashable) -> AsyncIterator[bytes | int]:
        """The body, which counts for its owner until the request is over; of one that is too large for its address how many bytes came.

        Raises Refused: 408 for one that does not come in time, 400 for one that ends before it is whole, 503 where there is no room for it.
        """
        most_bytes = self._limits.body_bytes(scope["path"])
        with self.held.some_of(owner) as held:
            try:
                async with asyncio.timeout(self._limits.body_seconds):
                    body = await _body(receive, most_bytes, held.more)
            except TimeoutError:
                raise Refused(408) from None
            except Broken:
                raise Refused(400) from None
            except Taken:
                raise Refused(503) from None
            yield body


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
