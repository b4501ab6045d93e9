"""Bulkheads: how many calls to one service this machine makes at once, so that a slow one cannot take everybody (P29).

A place is a lock that the kernel holds on a file, `<directory>/<name>.<number>`. The kernel gives it back when its
process dies, however it dies, so the bound is exact, nothing has to be tidied, and no server is asked. One more
file, `<name>.turn`, is held by the one among those who wait that looks for a free place; the others only look whether
it is their turn. Files are never deleted: between a deletion and a lock two processes could hold two files of one
name. One machine is one directory; over several machines a limit key bounds the jobs.
"""

import asyncio
import fcntl
import io
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from workers.deadlines import Deadline, DeadlineExceeded

# Pauses between two looks grow from the first to the second: a free place lies idle for 10 ms on average, and each
# who waits makes 50 system calls a second.
FIRST_PAUSE_SECONDS = 0.002
LONGEST_PAUSE_SECONDS = 0.025
NAME_BYTES = 200  # as it is written into a file's name, where other letters than a to z take 3 to 12
MAX_PLACES = 100  # whoever has the turn looks at each


class BulkheadFull(DeadlineExceeded):
    """No place came free in time, so nothing was sent."""


@dataclass(frozen=True)
class Bulkhead:
    """`places` calls at once, over all processes of this machine that use the same directory and name."""

    directory: Path
    name: str
    places: int

    def __post_init__(self) -> None:
        if not 1 <= len(self._file_name) <= NAME_BYTES:
            raise ValueError(f"A bulkhead's name takes {len(self._file_name)} bytes, but must take 1 to {NAME_BYTES}.")
        if not 1 <= self.places <= MAX_PLACES:
            raise ValueError(f"Bulkhead {self.name!r} has {self.places} places, but must have 1 to {MAX_PLACES}.")

    @asynccontextmanager
    async def place(self, deadline: Deadline) -> AsyncIterator[None]:
        """Hold one place. Raises BulkheadFull when none came free by the deadline; nobody keeps a queue."""
        with self._file("turn") as turn:
            for pause in self._pauses(deadline):
                with self._free_place(turn) as held:
                    if held:
                        yield
                        return
                await asyncio.sleep(pause)

    @contextmanager
    def hold(
        self,
        deadline: Deadline,
        check: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[None]:
        """The same for code that is not asynchronous; `check` is called between two looks and may raise."""
        with self._file("turn") as turn:
            for pause in self._pauses(deadline):
                check()
                with self._free_place(turn) as held:
                    if held:
                        yield
                        return
                sleep(pause)

    def _pauses(self, deadline: Deadline) -> Iterator[float]:
        """Random, so that those who wait do not all look at one instant. Raises BulkheadFull at the deadline."""
        longest = FIRST_PAUSE_SECONDS
        while not deadline.expired:
            yield min(deadline.remaining(), random.uniform(longest / 2, longest))
            longest = min(LONGEST_PAUSE_SECONDS, longest * 2)
        raise BulkheadFull(f"None of the {self.places} places of bulkhead {self.name!r} came free in time.")

    @contextmanager
    def _free_place(self, turn: io.FileIO) -> Iterator[bool]:
        """Whether it was our turn and a place was free; that is held until the end of the block."""
        if not _locked(turn):
            yield False
            return
        for number in range(self.places):
            with self._file(str(number)) as file:
                if _locked(file):
                    _unlock(turn)
                    yield True
                    return
        yield False

    @contextmanager
    def _file(self, ending: str) -> Iterator[io.FileIO]:
        with self._open(f"{self._file_name}.{ending}") as file:
            try:
                yield file
            finally:
                _unlock(file)

    @property
    def _file_name(self) -> str:
        return quote(self.name, safe="")

    def _open(self, name: str) -> io.FileIO:
        try:
            return io.FileIO(self.directory / name, "a")
        except FileNotFoundError:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return io.FileIO(self.directory / name, "a")


def _locked(file: io.FileIO) -> bool:
    """Whether it is locked by us now, or was already."""
    # flock, because its locks belong to the open file: two calls of one process count as two.
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: io.FileIO) -> None:
    """Said, not left to the closing: a process that was forked meanwhile has the file open too."""
    fcntl.flock(file, fcntl.LOCK_UN)
