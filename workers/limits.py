"""The limits of one attempt, inside the child that runs it (P19, P21).

Two clocks are set before the handler begins. At the limit a signal raises JobTimeout inside it. After the grace
a watchdog thread in C, which needs no GIL, writes where the process stands and ends it; so it also ends a handler that
swallows every exception or sits in C code. A cancel comes as a signal from the keeper and sets the same
watchdog. Behind all this stand the keeper's hard deadline and Celery's time limit.
"""

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from workers.failures import Ended, JobCancelled, JobTimeout
from workers.slots import OwnSlot

CANCEL_SIGNAL = signal.SIGUSR2  # SIGUSR1 is Celery's own


class Limits:
    """One per child, for its whole life. `traces` is a file descriptor that the watchdog writes to."""

    def __init__(self, slot: OwnSlot, traces: int, grace_seconds: float) -> None:
        self._slot = slot
        self._traces = traces
        self._grace_seconds = grace_seconds
        self._inside = False
        self._ends_at: float | None = None  # when the watchdog ends this process, monotonic; None between attempts
        self.fired: type[Ended] | None = None  # what was raised in the attempt, even if it was swallowed
        self._listen()

    def _listen(self) -> None:
        """Anew for each attempt: the last handler may have changed what signals do, or blocked them."""
        signal.signal(signal.SIGALRM, self._time_is_up)
        signal.signal(CANCEL_SIGNAL, self._cancel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, CANCEL_SIGNAL})

    def arm(self, limit_seconds: float) -> None:
        """Before anything that could hang. From here on the attempt ends by limit + grace, whatever it does."""
        self._inside = False
        self.fired = None
        self._listen()
        self._ends_at = time.monotonic() + limit_seconds + self._grace_seconds
        self._watch(limit_seconds + self._grace_seconds)
        signal.setitimer(signal.ITIMER_REAL, max(limit_seconds, 0.001))

    def inside(self, body: Callable[[], object]) -> object:
        """Run the handler. Only here may a signal raise; anywhere else it is noted."""
        try:
            self._inside = True
            self._raise_what_came_before()
            return body()
        finally:
            self._inside = False  # a signal just before this skips it, so disarm does it again

    def forget_trace(self) -> None:
        os.ftruncate(self._traces, 0)
        os.lseek(self._traces, 0, os.SEEK_SET)

    def disarm(self) -> None:
        self._inside = False
        self._ends_at = None  # first: from here on no signal sets the watchdog again
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """For what is not the job, after it: whatever hangs there ends with this process."""
        self._watch(seconds)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def end_within(self, seconds: float) -> None:
        """For a process that is about to leave of its own: it ends in any case."""
        self._watch(seconds)

    def _watch(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(max(seconds, 0.001), exit=True, file=self._traces)

    def _raise_what_came_before(self) -> None:
        if self.fired is not None:
            raise self.fired()
        if self._slot.cancelled:
            self._cancel(CANCEL_SIGNAL, None)

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        self._end_with(JobTimeout)

    def _cancel(self, number: int, frame: FrameType | None) -> None:
        """The signal may be late, and meant for an attempt that is over: the slot tells (P19). The grace of a cancel
        never outlasts that of the limit."""
        if self._ends_at is not None and self._slot.cancelled and self.fired is not JobCancelled:
            self._slot.acknowledge()
            self._ends_at = min(self._ends_at, time.monotonic() + self._grace_seconds)
            self._watch(self._ends_at - time.monotonic())
            self._end_with(JobCancelled)

    def _end_with(self, kind: type[Ended]) -> None:
        self.fired = kind
        if self._inside:
            raise kind
