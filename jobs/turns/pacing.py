"""When a refused caller should come back, and what is kept for those whose turn has come (P10, P32).

Callers that are refused in a row are sent to different turns. Who comes at its turn finds room because others leave it: for each
turn that is near, one place in the waiting room is not for anybody else. Without that a class that stays full admitted three to
fifty of a hundred that came when they were told to (docs/decisions/0017-places-kept.md).

The book of turns is in Redis (in_redis), for all web processes, by Redis' own clock; while Redis is away each process keeps its own
(in_process). A turn belongs to a caller's key, so that whoever asks again too soon is told the same one. Nothing in it is needed to be
right: a turn that is lost costs a caller one more try.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from jobs import broker, capacity, costs, queries, refused_lately
from jobs.capacity import Room
from jobs.classes import CostClass
from jobs.control import effective
from jobs.decision import Share, share_spacing_seconds
from jobs.kept import Kept
from jobs.turns.book import PACED, Book, Caller, Refusal
from jobs.turns.in_process import InProcess
from jobs.turns.in_redis import InRedis

T = TypeVar("T")

JITTER_SHARE = 0.1  # of the wait, at most; never less than the turn, or callers would come for nothing


@dataclass(frozen=True)
class Arrival:
    """`returned`: at its turn. `kept`: places of the waiting room that are for others, whose turn is near, and what their work takes all slots together, in
    seconds. `own_turns`: those of its client, behind its share, that are near."""

    returned: bool = False
    kept: int = 0
    kept_seconds: float = 0.0
    own_turns: int = 0


def whose(client: int, key: str | None) -> Caller:
    """`key`: an Idempotency-Key or outbox entry. No caller's key lies in the book in the clear."""
    return Caller(client, None if key is None else hashlib.sha256(key.encode()).hexdigest()[:32])


def arrive(caller: Caller, cost_class: CostClass) -> Arrival:
    """Whether it comes at its turn, which it then no longer holds; else how many places are kept from it.

    Where nobody is expected, as that was known a second ago, the book is not asked.
    """
    if not _anyone_expected(cost_class.name):
        return Arrival()
    departures = capacity.most_kept(cost_class.max_waiting)
    seen = _by(lambda book: book.arrive(cost_class.name, caller, departures))
    near = seen.near + seen.own_near  # of both, since its client may be alone by now, with turns behind a share
    if not near:
        return Arrival(seen.returned)
    each = seen.departure if costs.mean_seconds(cost_class.name) else 0.0
    kept = capacity.kept_places(near, each, cost_class.max_waiting, cost_class.backlog_seconds)
    return Arrival(seen.returned, kept, kept * each, seen.own_near)


def retry_after(
    reason: str, caller: Caller, room: Room, cost_class: CostClass, places: int = 1, share: Share | None = None
) -> int:
    """Whole seconds, 1 to the cap, for a caller that was refused so many places in this room.

    Who has its share is sent to turns of its own, at its part of the departures (P10a): behind them the turns of others would be as late as the share's.
    """
    base = queries.retry_after_seconds(cost_class, room, places, share)
    wants_room = reason in refused_lately.WANT_ROOM
    if wants_room:
        refused_lately.HERE.note(cost_class.name, caller.client)
    if effective.is_paused(cost_class.name):  # nobody departs before an operator resumes it
        return queries.RESUMED_IN_SECONDS
    if reason not in PACED or room.slots == 0:
        return base
    rate = queries.departures_per_second(cost_class, room)
    departure = spacing = 1 / rate if rate else cost_class.retry_after_seconds / room.slots
    if share is not None:
        departure, spacing = departure / share.part, share_spacing_seconds(share, departure)
    told = {"wants_room": wants_room, "over_share": share is not None}
    return _taken(caller, cost_class, base, spacing * places, departure, **told)


def _taken(
    caller: Caller,
    cost_class: CostClass,
    base: float,
    spacing: float,
    departure: float,
    *,
    wants_room: bool = False,
    over_share: bool = False,
) -> int:
    most, jitter = max(1, cost_class.max_waiting), random.random() * JITTER_SHARE
    refusal = Refusal(base, spacing, departure, jitter, most, over_share, wants_room)
    turn = _by(lambda book: book.take(cost_class.name, caller, refusal))
    for client, ago in turn.others:
        refused_lately.HERE.note(cost_class.name, client, ago)
    return turn.seconds


def _by(ask: Callable[[Book], T]) -> T:
    try:
        return ask(_SHARED)
    except broker.AWAY:
        return ask(_OWN)


_SHARED, _OWN = InRedis(), InProcess()
_anyone_expected = Kept(lambda cost_class: _by(lambda book: book.anyone_expected(cost_class)))


def forget() -> None:
    """What this process knows; for tests."""
    _anyone_expected.forget()
    _OWN.forget()
