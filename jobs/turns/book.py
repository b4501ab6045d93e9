"""What a book of turns is asked, wherever it lies. Durations in seconds, instants by its own clock."""

from dataclasses import dataclass
from typing import Protocol

from jobs.decision import SEEN_SECONDS

PACED = frozenset({"queue_full", "share_full", "deadline_unreachable"})  # refusals that departures put right
GRACE_SECONDS = 5.0  # after its turn in which a caller is still expected, at least
GRACE_SHARE = 0.25  # of its wait
SHARED_SECONDS = (
    SEEN_SECONDS  # for so long who had its share has turns behind it, also where it is the class that is full
)
NEWEST_COUNTS = 0.125  # of a client's turns, in the share of them at which it came: about the last eight decide


@dataclass(frozen=True)
class Caller:
    """Whose turn it is. key: None is one request, which cannot come again under a name; any of its client's stands for it."""

    client: int
    key: str | None


@dataclass(frozen=True)
class Seen:
    """Of somebody who comes. returned: at its turn. near: turns that are, of the class; departure: what one took when the last turn was given. own_near: turns of its
    client behind its share that are."""

    returned: bool = False
    near: int = 0
    departure: float = 0.0
    own_near: int = 0


@dataclass(frozen=True)
class Refusal:
    """What a turn is given for. base: until places come free; spacing: after the turn before; departure: what one takes, of the class or of the client's share of it;
    jitter: a share of the wait, on top."""

    base: float
    spacing: float
    departure: float
    jitter: float
    most: int  # turns to come that a client may hold
    over_share: bool = False  # its turns are behind its own ones only, and what is kept for them is of its share
    wants_room: bool = False  # others are to know of it (P10a)


@dataclass(frozen=True)
class Turn:
    """seconds: whole ones, until it. others: clients that were refused in the class lately, for want of room, and how long ago."""

    seconds: int
    others: tuple[tuple[int, float], ...] = ()


class Book(Protocol):
    def arrive(self, cost_class: str, caller: Caller, departures: int) -> Seen:
        """Strike out its turn if it has come. A turn is near when it comes before so many departures."""

    def take(self, cost_class: str, caller: Caller, refusal: Refusal) -> Turn:
        """The one that it has, if it is still to come, else a new one."""

    def anyone_expected(self, cost_class: str) -> bool:
        """Whether there may be a turn whose caller can still come."""
