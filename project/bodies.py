"""Bodies that are read whole before a thread is taken: bounded in size and time, and in what all of them, and those of one caller, hold at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from project import heads
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
        """The body, which counts for its owner until the request is over; of one that is too large for its address its length, or how many bytes came.

        Raises Refused: 408 for one that does not come in time, 400 for one that ends before it is whole, 503 where there is no room for it.
        """
        most_bytes = self._limits.body_bytes(scope["path"])
        if (told := heads.length(scope) or 0) > most_bytes and heads.waits_for_leave(scope):
            yield told  # it has sent nothing, and is not asked to
            return
        with self.held.some_of(owner) as held:
            try:
                # All that it will be: of many that had a part of it each, none might ever be whole.
                await held.more_within(self._limits.wait_seconds, _kept_bytes(scope, most_bytes))
                async with asyncio.timeout(self._limits.body_seconds):
                    body = await _body(receive, most_bytes, held.at_least)
            except TimeoutError:
                raise Refused(408) from None
            except Broken:
                raise Refused(400) from None
            except Taken:
                raise Refused(503) from None
            yield body


def _kept_bytes(scope: Message, most_bytes: int) -> int:
    """None of one that is too large; of one that comes in chunks nobody knows."""
    told = heads.length(scope) or 0
    return told if told <= most_bytes else 0


async def _body(receive: Receive, most_bytes: int, hold: Callable[[int], None]) -> bytes | int:
    """The whole body; of a larger one how many bytes came, which were thrown away. Raises Broken, and what hold raises, which is called with what there is of it."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Broken
        part = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            return size + (await drain(receive, DRAINED_BYTES) if message.get("more_body", False) else 0)
        hold(size)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
