"""What a pool child has for its whole life: who it is, its slot, its limits, its logbook.

The files lie in a folder of the node, named by pid, so that the keeper finds those of a child that is gone.
"""

import logging
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event
from uuid import UUID

from django.conf import settings

from jobs.lifecycle import Claimant
from workers import kernel, logbook
from workers.alterations import Alterations
from workers.budget import RetryBudget
from workers.limits import Limits
from workers.logbook import Logbook
from workers.slots import OwnSlot, SharedSlots

# Set by the keeper for its children.
NODE_VARIABLE = "WEIGHBRIDGE_NODE_ID"
FOLDER_VARIABLE = "WEIGHBRIDGE_NODE_DIR"

_LEAVE_SECONDS = 5.0  # to return from the task and hand its result to the parent, which waits for two (workers.pool)


@dataclass(frozen=True)
class Papers:
    """The two files of one child."""

    trace: Path  # where it stood when its watchdog ended it; empty otherwise
    log: Path

    @classmethod
    def of(cls, folder: Path, pid: int) -> "Papers":
        return cls(folder / f"{pid}.trace", folder / f"{pid}.log")

    def read(self) -> tuple[str, str]:
        """Trace and log, empty where there is none."""
        return _text(self.trace), _text(self.log)

    def remove(self) -> None:
        self.trace.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)


def _text(path: Path) -> str:
    try:
        return logbook.tail(path.read_bytes())
    except FileNotFoundError:
        return ""


@dataclass(frozen=True)
class Equipment:
    claimant: Claimant
    slot: OwnSlot
    limits: Limits
    budget: RetryBudget
    logbook: Logbook
    alterations: Alterations
    leaving: Event = field(default_factory=Event)  # once set, this process takes no other job (workers.pool)

    def begin_afresh(self) -> None:
        """Before the next claim is sent: nothing of the last attempt may be taken for the next one's (P19)."""
        self.slot.clear()
        self.logbook.attach()
        self.logbook.begin()
        self.limits.forget_trace()

    def leave(self) -> None:
        """Once its last result is delivered."""
        self.limits.end_within(_LEAVE_SECONDS)
        self.leaving.set()


@cache
def mine() -> Equipment:
    """Of this process. Asked for the first time right after the fork."""
    papers = Papers.of(Path(os.environ[FOLDER_VARIABLE]), os.getpid())
    slot = OwnSlot(SharedSlots.inherited())
    traces = os.open(papers.trace, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return Equipment(
        claimant=Claimant(UUID(os.environ[NODE_VARIABLE]), *kernel.myself()),
        slot=slot,
        limits=Limits(slot, traces, settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS),
        budget=RetryBudget.inherited(),
        logbook=_attached(Logbook(papers.log)),
        alterations=Alterations(),
    )


def _attached(book: Logbook) -> Logbook:
    """Lines look as they do in the process's own log."""
    book.setFormatter(logging.getLogger().handlers[0].formatter)
    book.attach()
    return book
