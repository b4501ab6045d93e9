"""The retry budget of one node: retries ≤ max(10, 20 % of the attempts of the last minute) (P25).

It lies in memory that the node's children share, so it is exact for the node and gone with it.
"""

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FD_VARIABLE = "WEIGHBRIDGE_BUDGET_FD"  # set by the keeper for its children
WINDOW_SECONDS = 60
FLOOR = 10
SHARE = 0.2
_WORDS_PER_SECOND = 3  # which second, attempts, retries


class RetryBudget:
    def __init__(self, fd: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.fd = fd
        self._clock = clock
        self._words = memoryview(mmap.mmap(fd, WINDOW_SECONDS * _WORDS_PER_SECOND * 8)).cast("Q")

    @classmethod
    def create(cls, clock: Callable[[], float] = time.monotonic) -> "RetryBudget":
        fd = os.memfd_create("weighbridge-budget", 0)  # without CLOEXEC: Celery is to inherit it
        os.ftruncate(fd, WINDOW_SECONDS * _WORDS_PER_SECOND * 8)
        return cls(fd, clock)

    @classmethod
    def inherited(cls) -> "RetryBudget":
        return cls(int(os.environ[FD_VARIABLE]))

    def count_attempt(self) -> None:
        with self._locked():
            self._words[self._bucket() + 1] += 1

    def spend(self) -> bool:
        """Take one retry if there is one left."""
        with self._locked():
            attempts, retries = self._sums()
            if retries + 1 > max(FLOOR, SHARE * attempts):
                return False
            self._words[self._bucket() + 2] += 1
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The kernel gives the lock back if its holder is killed."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def _bucket(self) -> int:
        """Index of the current second's words, emptied if they are from a minute ago."""
        second = int(self._clock()) + 1  # 0 means never written
        at = second % WINDOW_SECONDS * _WORDS_PER_SECOND
        if self._words[at] != second:
            self._words[at], self._words[at + 1], self._words[at + 2] = second, 0, 0
        return at

    def _sums(self) -> tuple[int, int]:
        oldest = int(self._clock()) + 1 - WINDOW_SECONDS
        starts = range(0, WINDOW_SECONDS * _WORDS_PER_SECOND, _WORDS_PER_SECOND)
        fresh = [at for at in starts if self._words[at] > max(0, oldest)]
        return sum(self._words[at + 1] for at in fresh), sum(self._words[at + 2] for at in fresh)
