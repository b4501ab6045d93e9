"""The threads in which Django is called, and whose turn it is in them: so many at once, so many that wait for one, and nobody for ever."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from project.fair_turns import FairTurns
from project.limits import Limits
from project.places import Places, Taken
from project.streams import Send
from project.wsgi_call import Answer, Application, Message, run

T = TypeVar("T")


class RequestThreads:
    """Touched by the event loop alone."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self._application = application
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        self.turns = FairTurns(limits.threads)
        self.waiting = Places(limits.waiting)

    async def got_one(self, owner: Hashable, within_seconds: float) -> bool:
        """At once not, where too many wait for one already, or too many of this owner."""
        if not self.turns.all_taken:
            return await self.turns.got(owner, within_seconds)
        try:
            with self.waiting.one_of(owner):
                return await self.turns.got(owner, within_seconds)
        except Taken:
            return False

    async def got_one_all_the_same(self, owner: Hashable, within_seconds: float) -> bool:
        """For who has waited before, or sent its file, however many wait."""
        return await self.turns.got(owner, within_seconds)

    async def used(self, environ: dict[str, Any], send: Send, rather: Answer | None = None) -> Answer | None:
        """Asks Django, in the turn that it got, which is over then. `rather`: what is said if this fails."""
        loop = asyncio.get_running_loop()

        def emit(message: Message) -> None:
            """From the thread; it waits until the server has taken the message, so that nothing piles up."""
            asyncio.run_coroutine_threadsafe(_sent(send, message), loop).result()

        try:
            return await self.in_a_thread(run, self._application, environ, emit, rather)
        finally:
            self.turns.give_back()

    def in_a_thread(self, do: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Something short, without a turn."""
        return asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


async def _sent(send: Send, message: Message) -> None:
    await send(message)
