"""Asynchronous work that is held to a deadline, with nothing left over. No Django.

`run_within` gives a coroutine an event loop in a thread of its own, because a limit or a cancel of the job is an
exception that a signal handler raises in the main thread, wherever that thread is. Raised inside asyncio it would be
lost: `Handle._run` reports every BaseException that a callback raises, KeyboardInterrupt and SystemExit apart, to the
loop's log and goes on. So the main thread only waits, and what is raised there ends the loop in order.
"""

import _thread
import asyncio
import contextvars
import math
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from workers.deadlines import Deadline, DeadlineExceeded
from workers.names import Loop

T = TypeVar("T")

LOOK_SECONDS = 0.05  # between two calls of `check`: a cancel is felt at once, and a long wait costs no CPU
# Work ends itself at its deadline; this much later the loop cancels work that did not, and its results are lost. That is
# far more than a starved machine needs, and far less than a job's grace.
FENCE_SECONDS = 1.0
# How long the caller waits for a loop that was told to end. Closing sockets takes milliseconds.
END_SECONDS = 1.0


def run_within(
    deadline: Deadline,
    work: Callable[[], Coroutine[Any, Any, T]],
    check: Callable[[], None] = lambda: None,
) -> T:
    """What the coroutine `work()` returns or raises. Works in any thread, also beside a running loop.

    `work` runs in another thread and is to end by itself at the deadline; it is cancelled FENCE_SECONDS after it.
    `check` is called here every LOOK_SECONDS. What it raises, and what a signal handler raises, cancels the work
    and is raised again once the loop, its tasks and its thread have ended, or after END_SECONDS if they do not.
    """
    check()
    room = _Room(deadline, work)
    # Looks, not instants, here and in held_to: after a machine stood still, work gets its time to end all the same.
    looks_left = round((FENCE_SECONDS + END_SECONDS) / LOOK_SECONDS)
    try:
        room.begin()
        while not room.ended and looks_left:
            room.wait(LOOK_SECONDS)
            check()
            looks_left -= deadline.expired
    finally:
        # A second signal must not cut this short. No call comes before the inner try, so none can be raised there.
        again: BaseException | None = None
        while True:
            try:
                room.end()
                break
            except BaseException as error:
                again = error
        if again is not None:
            raise again
    return room.outcome()


async def held_to(deadline: Deadline, work: Coroutine[Any, Any, T], sentence: str, grace_seconds: float = 0.0) -> T:
    """What `work` returns or raises by the deadline, or in the grace after it; else it is cancelled.

    Raises DeadlineExceeded(sentence) then, once it has ended.
    """
    task = asyncio.create_task(work)
    try:
        for seconds in (deadline.remaining(), grace_seconds):
            await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise DeadlineExceeded(sentence)
    finally:
        while not task.done():
            # More than once, if need be: a cancel that comes as anyio ends a scope of its own is taken for that one.
            task.cancel()
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
        if not task.cancelled():
            task.exception()  # seen, or the loop would log it as forgotten


_STUCK = "Outgoing calls did not end at their deadline."


class _Room(Generic[T]):
    """One coroutine, its event loop and its thread."""

    def __init__(self, deadline: Deadline, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._deadline = deadline
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._stopped = False
        self._given_up_at = math.inf
        self._begun = False
        self.ended = False
        # A bare lock, because threading.Event and Thread.join do not survive an exception from a signal handler:
        # the one can keep its inner lock, the other takes the thread for ended (CPython 3.11).
        self._latch = threading.Lock()
        self._latch.acquire()
        self._values: list[T] = []
        self._error: BaseException | None = None
        # The context goes along, so that log lines carry the job. A daemon never holds up the end of the process.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._live,), name="weighbridge-calls", daemon=True)

    def begin(self) -> None:
        """Thread.start would not survive such an exception either, so a bare thread calls it: no handler runs there.

        To block signals here would not do: any other thread of the process may take them for the main thread.
        """
        self._begun = True
        _thread.start_new_thread(self._start, ())

    def _start(self) -> None:
        try:
            self._thread.start()
        except BaseException as error:
            self._has_ended(error)

    def _live(self) -> None:
        # The main thread is woken at once only by signals that it takes itself.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with asyncio.Runner(loop_factory=Loop) as runner:
                self._values.append(runner.run(self._fenced()))
        except BaseException as error:
            self._has_ended(error)
        else:
            self._has_ended(None)

    def _has_ended(self, error: BaseException | None) -> None:
        self._error = error
        self.ended = True
        self._latch.release()

    async def _fenced(self) -> T:
        self._task = asyncio.current_task()
        if self._stopped:  # before there was a task to cancel
            raise asyncio.CancelledError
        return await held_to(self._deadline, self._work(), _STUCK, FENCE_SECONDS)

    def wait(self, seconds: float) -> None:
        """Until it has ended, at most so long."""
        if not self.ended and self._latch.acquire(timeout=seconds):
            self._latch.release()

    def _stop(self) -> None:
        """Cancel the work, in this or in its next step. Harmless when it has ended."""
        self._stopped = True
        if self._task is not None:
            try:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            except RuntimeError:  # it ended meanwhile, and its loop is closed
                pass

    def end(self) -> None:
        """Stop the work if it goes on, and wait until nothing of it is left, for END_SECONDS from the first call on."""
        if not self._begun:
            return
        self._given_up_at = min(self._given_up_at, time.monotonic() + END_SECONDS)
        if not self.ended:
            self._stop()
            self.wait(max(0.0, self._given_up_at - time.monotonic()))
        # Its thread has a step or two to go: it is not to be taken for one that the handler left behind.
        while self.ended and self._thread in threading.enumerate() and time.monotonic() < self._given_up_at:
            time.sleep(0.0005)

    def outcome(self) -> T:
        if isinstance(self._error, asyncio.CancelledError) or not (self._error or self._values):
            raise DeadlineExceeded(_STUCK)
        if self._error is not None:
            raise self._error
        return self._values[0]
