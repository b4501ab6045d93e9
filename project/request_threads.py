"""The threads in which Django is called, and whose turn it is in them: so many at once, so many that wait for one, and nobody for ever."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from project.limits import Limits
from project.streams import Send
from project.wsgi_call import Answer, Application, Message, run

T = TypeVar("T")


class RequestThreads:
    """Touched by the event loop alone."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self._application = application
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads, "request")
        self._free = asyncio.Semaphore(limits.threads)
        self._waiting = 0

    async def got_one(self, within_seconds: float) -> bool:
        """At once not, where too many wait for one already."""
        if self._waiting >= self._limits.waiting and self._free.locked():
            return False
        self._waiting += 1
        try:
            return await self.got_one_all_the_same(within_seconds)
        finally:
            self._waiting -= 1

    async def got_one_all_the_same(self, within_seconds: float) -> bool:
        """For who has waited before, or sent its file, however many wait."""
        return await got(self._free, within_seconds)

    async def used(self, environ: dict[str, Any], send: Send, rather: Answer | None = None) -> Answer | None:
        """Asks Django, in the turn that it got, which is over then. `rather`: what is said if this fails."""
        loop = asyncio.get_running_loop()

        def emit(message: Message) -> None:
            """From the thread; it waits until the server has taken the message, so that nothing piles up."""
            asyncio.run_coroutine_threadsafe(_sent(send, message), loop).result()

        try:
            return await self.in_a_thread(run, self._application, environ, emit, rather)
        finally:
            self._free.release()

    def in_a_thread(self, do: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Something short, without a turn."""
        return asyncio.get_running_loop().run_in_executor(self._threads, do, *arguments)

    def stop(self) -> None:
        self._threads.shutdown(wait=False)


async def got(one_of: asyncio.Semaphore, within_seconds: float) -> bool:
    try:
        async with asyncio.timeout(within_seconds):
            await one_of.acquire()
    except TimeoutError:
        return False
    return True


async def _sent(send: Send, message: Message) -> None:
    await send(message)
