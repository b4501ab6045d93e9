"""The memory that a keeper shares with its pool children: one slot per child, and a few words for all.

It is a memfd: made by the keeper, inherited by Celery and by every child that Celery forks, gone with the
last of them. A child owns the slot whose byte it has locked; the kernel gives the lock back when the child
dies (or when it closes any descriptor of this memory, so what it has mapped it keeps for its whole life). Every field is one aligned 64-bit word, so it is never seen half written.
"""

import fcntl
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

FD_VARIABLE = "WEIGHBRIDGE_SLOTS_FD"  # set by the keeper for its children
_WORD = 8
_HEADER_WORDS = 8
_SLOT_WORDS = 8
_STOPPING = 0
_SPARE_SLOTS = 8  # children that have ended and not been replaced yet, or the other way round


class Phase(IntEnum):
    """What a child does with its token. No cancel and no lost lease ends it while it settles (P30)."""

    IDLE = 0
    RUNNING = 1
    SETTLING = 2


class _Field(IntEnum):
    PID = 0
    TOKEN = 1  # the attempt it works on; 0 between attempts
    PHASE = 2
    CANCEL = 3  # the attempt that the keeper wants ended
    ACKNOWLEDGED = 4  # the attempt whose cancel the child has taken note of
    STARTS = 5  # attempts begun by all children that had this slot
    CPU = 6  # milliseconds of CPU that the child had used when its attempt began


@dataclass(frozen=True)
class Seen:
    """One slot as the keeper read it."""

    index: int
    pid: int
    token: int
    phase: Phase
    cpu_seconds_before: float = 0.0  # of the child, when its attempt began


class SharedSlots:
    """The whole memory. `processes` is what the node runs at once."""

    def __init__(self, fd: int, count: int) -> None:
        self.fd = fd
        self.count = count
        self._memory = mmap.mmap(fd, _size(count))
        self._words = memoryview(self._memory).cast("Q")

    @classmethod
    def create(cls, processes: int, name: str = "weighbridge-slots") -> "SharedSlots":
        """`name` is seen in the list of what a process has mapped (workers.strays)."""
        count = 2 * processes + _SPARE_SLOTS
        fd = os.memfd_create(name, 0)  # without CLOEXEC: Celery is to inherit it
        os.ftruncate(fd, _size(count))
        return cls(fd, count)

    @classmethod
    def inherited(cls) -> "SharedSlots":
        fd = int(os.environ[FD_VARIABLE])
        return cls(fd, (os.fstat(fd).st_size // _WORD - _HEADER_WORDS) // _SLOT_WORDS)

    @property
    def stopping(self) -> bool:
        """Whether the node was told to stop."""
        return bool(self._words[_STOPPING])

    def say_stopping(self) -> None:
        self._words[_STOPPING] = 1

    def all(self) -> Iterator[Seen]:
        """Slots that a child has ever taken; a dead child's stays until the next one takes it."""
        for index in range(self.count):
            pid = self.get(index, _Field.PID)
            if pid:
                phase = Phase(self.get(index, _Field.PHASE))
                cpu = self.get(index, _Field.CPU) / 1000
                yield Seen(index, pid, self.get(index, _Field.TOKEN), phase, cpu)

    def get(self, index: int, field: _Field) -> int:
        return self._words[_HEADER_WORDS + index * _SLOT_WORDS + field]

    def put(self, index: int, field: _Field, value: int) -> None:
        self._words[_HEADER_WORDS + index * _SLOT_WORDS + field] = value

    @property
    def starts(self) -> int:
        """Attempts that the node has begun so far."""
        return sum(self.get(index, _Field.STARTS) for index in range(self.count))

    @property
    def busy(self) -> int:
        """Children that work on an attempt."""
        return sum(seen.token != 0 for seen in self.all())

    # ── The keeper's side ────────────────────────────────────────────────────────────────────────────

    def of(self, pid: int, token: int) -> Seen | None:
        """The slot in which this child works on this attempt now."""
        return next((seen for seen in self.all() if seen.pid == pid and seen.token == token), None)

    def ask_to_cancel(self, seen: Seen) -> None:
        self.put(seen.index, _Field.CANCEL, seen.token)

    def has_acknowledged(self, seen: Seen) -> bool:
        return self.get(seen.index, _Field.ACKNOWLEDGED) == seen.token


class OwnSlot:
    """A child's own slot."""

    def __init__(self, shared: SharedSlots) -> None:
        self.shared = shared
        self.index = self._take()
        shared.put(self.index, _Field.PID, os.getpid())

    def _take(self) -> int:
        for index in range(self.shared.count):
            try:
                fcntl.lockf(self.shared.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, index)
            except OSError:
                continue
            self.index = index
            self.clear()
            return index
        raise RuntimeError("every slot of the node is taken: there are more children than it was made for")

    def clear(self) -> None:
        """Before the next claim is sent: what was meant for the last attempt cannot hit the next (P19)."""
        for field in (_Field.PHASE, _Field.TOKEN, _Field.CANCEL, _Field.ACKNOWLEDGED):
            self.shared.put(self.index, field, 0)

    def begin(self, token: int, cpu_seconds: float = 0.0) -> None:
        self.shared.put(self.index, _Field.CPU, int(cpu_seconds * 1000))
        self.shared.put(self.index, _Field.PHASE, Phase.RUNNING)
        self.shared.put(self.index, _Field.STARTS, self.shared.get(self.index, _Field.STARTS) + 1)
        self.shared.put(self.index, _Field.TOKEN, token)  # last: a slot with a token is complete

    def settle(self) -> None:
        self.shared.put(self.index, _Field.PHASE, Phase.SETTLING)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt in this slot is to be cancelled."""
        token = self.shared.get(self.index, _Field.TOKEN)
        return token != 0 and self.shared.get(self.index, _Field.CANCEL) == token

    def acknowledge(self) -> None:
        self.shared.put(self.index, _Field.ACKNOWLEDGED, self.shared.get(self.index, _Field.TOKEN))


def _size(count: int) -> int:
    return (_HEADER_WORDS + count * _SLOT_WORDS) * _WORD
