"""From ASGI to Django's WSGI handler: short requests at WSGI's speed, on a few threads, with slow callers held off them.

A body is read on the event loop, up to a cap and for a while, before a thread is taken: who sends slowly holds a connection and
what it has sent, but no thread. Django's own ASGI handler hops threads for every synchronous middleware and view, and answers a third
as many requests.

Where a key is needed, a caller whose key was not seen yet is asked for a first time without its body: of a stranger nothing is read but to be thrown away.

A file that is sent here is no body to hold in memory: its request is asked a first time without it, so that a stranger is refused before
anything is read; then the body goes into the sink that the answer bears, and the request is asked once more. A file that is sent from here is read
as its caller takes it. Neither holds a thread while it waits for its caller.

A caller who would rather wait for a later answer holds no thread either: its request is asked a first time, waits on the event loop, and is
asked once more. The first answer is kept for when there is no better one.

However often a request is asked, it has one id, and only the answer that is sent is told of.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from project import heads
from project.bodies import DRAINED_BYTES, Bodies
from project.callers import Callers
from project.fair_turns import FairTurns
from project.limits import Limits
from project.places import Refused, Taken
from project.request_threads import RequestThreads
from project.streams import Receive, Send, drain
from project.transfers import DRAINED_OF_A_STREAM_BYTES, Transfers
from project.wsgi_call import Answer, Application, Hold, Message, environ_of

A = TypeVar("A", Answer, Answer | None)


class Keys(NamedTuple):
    """Where a request's environ has what is not of its caller.

    `waited`: of one that is asked once more, its hold. `arrived`: None while the body is still to come, and of one that came into a sink, that.
    `earlier`: the record of the answer before; None at first, which says that records are told by us.
    """

    waited: str = "waited"
    arrived: str = "arrived"
    earlier: str = "earlier"


KEYS = Keys()


class ThreadBridge:
    """An ASGI application around a WSGI one. `/healthz` is answered on the event loop: it says that this process lives."""

    def __init__(
        self,
        application: Application,
        own_answer: Callable[[int, str], Answer],
        limits: Limits,
        keys: Keys = KEYS,
        named: Callable[[str], str] = lambda given: given,
        when_told_to_stop: Callable[[Callable[[], object]], None] = lambda act: None,
        callers: Callers | None = None,
    ) -> None:
        """`own_answer` makes the answer to a request that is not passed on, from a status and the request's id.

        200 is /healthz; 400, 408, 413, 429 and 503 are refusals. `named` makes that id of the X-Request-Id that was given, "" if none was. `when_told_to_stop`
        is given what to call when this process is to end: a server that lets requests be answered first says so in ASGI's lifespan
        only when none is left.
        """
        self._keys, self._named = keys, named
        self._when_told_to_stop = when_told_to_stop
        self._own_answer = own_answer
        self._limits = limits
        self._threads = RequestThreads(application, limits)
        self._callers = callers or Callers()
        self._bodies = Bodies(limits)
        self._transfers = Transfers(limits)
        self._may_store = FairTurns(min(limits.stored, limits.threads))
        # Touched by the event loop alone.
        self._stopping = False
        self._answering: set[asyncio.Event] = set()  # one for each request; set, it waits no longer for a better answer

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer_in_time(heads.with_id(scope, self._named), receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._when_told_to_stop(lambda: loop.call_soon_threadsafe(self._wait_no_longer))
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self._stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _stop(self) -> None:
        """What is being answered is answered."""
        self._wait_no_longer()
        until = asyncio.get_running_loop().time() + self._limits.stop_seconds
        while self._answering and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
        self._threads.stop()
        self._transfers.stop()

    def _wait_no_longer(self) -> None:
        """Who waits is told what is known."""
        self._stopping = True
        for no_longer in self._answering:
            no_longer.set()

    async def _answer_in_time(self, scope: Message, receive: Receive, send: Send) -> None:
        no_longer = asyncio.Event()
        self._answering.add(no_longer)
        try:
            answer = await self._answer(scope, receive, send, no_longer)
            if answer is not None and answer.source is not None:
                await self._sent_out(scope, send, answer)
            elif answer is not None:
                await _send_whole(send, scope, answer)
        finally:
            self._answering.discard(no_longer)

    async def _answer(self, scope: Message, receive: Receive, send: Send, no_longer: asyncio.Event) -> Answer | None:
        """None if nobody is left to be answered, or all was sent piece by piece."""
        if scope["path"] == "/healthz" and scope["method"] in {"GET", "HEAD"}:
            return self._own(scope, 200)
        if not heads.plainly_sent(scope):
            return self._own(scope, 400)
        if self._limits.streams(scope["method"], scope["path"]):
            return await self._streamed_in(scope, receive, send)
        first = await self._whole_in(scope, receive, send)
        if first is None or first.hold is None:
            return first
        try:
            return await self._held(scope, receive, send, first, first.hold, no_longer)
        finally:
            first.hold.release()

    async def _whole_in(self, scope: Message, receive: Receive, send: Send) -> Answer | None:
        """With its body in memory."""
        if not self._must_be_introduced(scope):
            return await self._refused_or_passed_on(scope, receive, send)
        first = await self._asked_without_body(scope, send, self._limits.wait_seconds)
        if first is None or not first.awaits_body:
            return await self._refused_unread(scope, receive, first, DRAINED_BYTES)
        return await self._refused_or_passed_on(scope, receive, send, first)

    def _must_be_introduced(self, scope: Message) -> bool:
        return self._limits.needs_key(scope["path"]) and heads.has_body(scope) and self._callers.owner_of(scope) is None

    async def _asked_without_body(self, scope: Message, send: Send, within_seconds: float) -> Answer | None:
        """Whether it may send it."""
        if not await self._threads.got_one(self._callers.owner_of(scope), within_seconds):
            return self._own(scope, 503)
        return await self._asked(scope, send, {**environ_of(scope, 0), self._keys.arrived: None})

    async def _streamed_in(self, scope: Message, receive: Receive, send: Send) -> Answer | None:
        first = await self._asked_without_body(scope, send, self._limits.again_seconds)
        if first is None or first.sink is None:
            return await self._refused_unread(scope, receive, first, DRAINED_OF_A_STREAM_BYTES)
        try:
            size = await self._transfers.take_in(receive, first.sink, first.owner)
            arrived = {self._keys.arrived: first.sink, self._keys.earlier: first.record}
            return await self._stored(scope, send, environ_of(scope, size) | arrived)
        except Taken as taken:
            return await self._refused_unread(scope, receive, self._own(scope, taken.status), DRAINED_OF_A_STREAM_BYTES)
        except Refused as refused:
            return self._own(scope, refused.status)
        finally:
            await self._transfers.close(first.sink)

    async def _stored(self, scope: Message, send: Send, environ: dict[str, Any]) -> Answer | None:
        if not await self._may_store.got(self._callers.owner_of(scope), self._limits.storing_seconds):
            return self._own(scope, 503)
        try:
            if not await self._threads.got_one_all_the_same(self._callers.owner_of(scope), self._limits.again_seconds):
                return self._own(scope, 503)
            return await self._asked(scope, send, environ)
        finally:
            self._may_store.give_back()

    async def _refused_unread(self, scope: Message, receive: Receive, answer: A, most_bytes: int) -> A:
        """Who waits for leave to send (Expect: 100-continue) has sent nothing, and is not asked to."""
        if not heads.waits_for_leave(scope):
            await drain(receive, most_bytes)
        return answer

    async def _sent_out(self, scope: Message, send: Send, answer: Answer) -> None:
        try:
            await self._transfers.send_out(scope, send, answer)
        except Taken as taken:
            await _send_whole(send, scope, self._own(scope, taken.status))

    def _own(self, scope: Message, status: int) -> Answer:
        return self._own_answer(status, heads.request_id(scope))

    async def _refused_or_passed_on(
        self, scope: Message, receive: Receive, send: Send, introduced: Answer | None = None
    ) -> Answer | None:
        owner, earlier = self._callers.owner_of(scope), introduced and introduced.record
        try:
            async with self._bodies.whole(scope, receive, owner) as body:
                if isinstance(body, int) and not self._limits.refuses_by_length(scope["path"]):
                    return self._own(scope, 413)
                if not await self._threads.got_one(owner, self._limits.wait_seconds):
                    return self._own(scope, 503)
                return await self._asked(scope, send, {**environ_of(scope, body), self._keys.earlier: earlier})
        except Refused as refused:
            return self._own(scope, refused.status)

    async def _asked(
        self, scope: Message, send: Send, environ: dict[str, Any], rather: Answer | None = None
    ) -> Answer | None:
        """In the turn that it got."""
        answer = await self._threads.used({self._keys.earlier: None, **environ}, send, rather)
        self._callers.learn(scope, answer)
        return answer

    async def _held(
        self, scope: Message, receive: Receive, send: Send, first: Answer, hold: Hold, no_longer: asyncio.Event
    ) -> Answer | None:
        has_left = await self._left_meanwhile(receive, hold, no_longer)
        if self._stopping:  # a connection that we close ourselves has not been left
            return await self._threads.in_a_thread(first.told)
        if has_left:
            await self._threads.in_a_thread(_left, first, hold)
            return None
        return await self._asked_again(scope, send, first, hold)

    async def _left_meanwhile(self, receive: Receive, hold: Hold, no_longer: asyncio.Event) -> bool:
        """Waits as long as there is something to wait for; whether the caller went. However that ends, nobody listens for it any more."""
        loop = asyncio.get_running_loop()
        hold.ended.add_done_callback(lambda ended: loop.call_soon_threadsafe(no_longer.set))
        gone = asyncio.create_task(_until_gone(receive))
        gone.add_done_callback(lambda task: no_longer.set())
        if self._stopping:
            no_longer.set()
        try:
            async with asyncio.timeout(hold.seconds):
                await no_longer.wait()
        except TimeoutError:
            pass
        finally:
            has_left = gone.done()
            gone.cancel()
        return has_left

    async def _asked_again(self, scope: Message, send: Send, first: Answer, hold: Hold) -> Answer | None:
        """The first answer if now there is none, or a failure: it is still true."""
        if not await self._threads.got_one_all_the_same(self._callers.owner_of(scope), self._limits.again_seconds):
            return await self._threads.in_a_thread(first.told)
        waited = {self._keys.waited: hold, self._keys.earlier: first.record}
        return await self._asked(scope, send, environ_of(scope, b"") | waited, rather=first)


def _left(first: Answer, hold: Hold) -> None:
    hold.caller_left()
    if first.record is not None:
        first.record.left()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_whole(send: Send, scope: Message, answer: Answer) -> None:
    body = b"" if scope["method"] == "HEAD" else answer.body
    headers = answer.headers
    if answer.status == 304:  # a length of 0 would be that of the answer that is not sent again
        headers = [(name, value) for name, value in headers if name != b"content-length"]
    elif not any(name == b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", str(len(answer.body)).encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
