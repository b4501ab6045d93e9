"""Files on their way: in, as their callers send them, and out, as their callers take them. Each owner has its share of the places."""

from collections.abc import Hashable

from project.limits import Limits
from project.places import Places, Refused
from project.streams import Broken, Files, Receive, Send, Stalled, drain
from project.wsgi_call import Answer, Message, Sink

# Whoever is refused while it sends reads the answer only if it could send: so much is read and thrown away.
DRAINED_OF_A_STREAM_BYTES = 256 * 1024 * 1024


class Transfers:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = Files()
        self.coming = Places(limits.streamed)
        self.going = Places(limits.sent)

    async def take_in(self, receive: Receive, sink: Sink, owner: Hashable) -> int:
        """The body into the sink; how much came.

        Raises Taken, and nothing was read; and Refused: 408 for who is too slow, 400 for a body that ends before it is whole, 503 for a disk that is full.
        """
        with self.coming.one_of(owner):
            try:
                return await self._files.take_in(receive, sink, self._limits.pace)
            except TimeoutError:
                raise Refused(408) from None
            except Broken:
                raise Refused(400) from None
            except OSError:
                await drain(receive, DRAINED_OF_A_STREAM_BYTES)
                raise Refused(503) from None

    async def send_out(self, scope: Message, send: Send, answer: Answer) -> None:
        """Raises Taken, and nothing was sent or told of. The source is closed either way."""
        assert answer.source is not None
        try:
            with self.going.one_of(answer.owner):
                await self._files.tell(answer)
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
                if scope["method"] == "HEAD":
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                else:
                    await self._files.send_out(send, answer.source, self._limits.taking_seconds)
        except Stalled:  # the server sees an answer that is not whole, and closes the connection
            pass
        finally:
            await self._files.close(answer.source)

    async def close(self, sink: Sink) -> None:
        await self._files.close(sink)

    def stop(self) -> None:
        self._files.stop()
