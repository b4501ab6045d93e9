"""Whether a job is let into its class, as the class is at one instant (P2, P5, P7, P9, P10a). Pure arithmetic; durations in seconds.

Admission asks the database, whose `decide_v1` decides the same on what it counts; a test gives both the same situations. The simulator decides by this.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jobs.capacity import (
    RESUME_SHARE,
    RETRY_AFTER_CAP_SECONDS,
    SURE_ENOUGH,
    Room,
    backlog_seconds,
    start_probability,
    start_seconds,
)

SEEN_SECONDS = 60.0  # for so long who was let into a class, or refused there, wants some of it (P10a)
SHARE_SURE = 0.9  # that the departures for which a caller beyond its share waits have happened when it is to come

PAUSED = "\x1f"  # begins the name under which a paused job type is held as a limit key is

Verdict = Literal[
    "deadline_infeasible", "deadline_unreachable", "queue_full", "share_full", "type_unavailable", "admitted"
]


@dataclass(frozen=True)
class Bounds:
    """Of one class. `processes` are those it is configured with, which stand for the slots while none is live. Of the waiting room `kept` places, and
    the work of their jobs on all slots, are for others, whose turn is near (P10); shares are of the whole room."""

    max_waiting: int
    max_backlog_seconds: float
    processes: int
    kept: int = 0
    kept_seconds: float = 0.0


@dataclass(frozen=True)
class Standing:
    """How the client stands in the class beside the others.

    part: its own of the class, its weight beside those of all clients seen; part_of_holders: beside those of them that hold some; 1: there is no other. jobs, work_seconds: what it has waiting and running
    there. own_turns: its refused requests that were told to come about now, for its share (P10). keys: jobs of all clients by limit key, of keys that have a maximum.
    """

    part: float = 1.0
    part_of_holders: float = 1.0
    jobs: int = 0
    work_seconds: float = 0.0
    own_turns: int = 0
    keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ahead:
    """What would be before the job: how many wait and run, and how long one of them takes in the mean; None: that is not known."""

    jobs: int
    mean_seconds: float | None


@dataclass(frozen=True)
class Asked:
    """What of a job decides. `expected_seconds` of work, None: not known; `declared`: its type says so itself. `type_known`: to a live node."""

    deadline_in_seconds: float | None = None
    expected_seconds: float | None = None
    declared: bool = False
    limit_keys: tuple[str, ...] = ()
    type_known: bool = True


@dataclass(frozen=True)
class Share:
    """A share that is used up, of places or of work: of the client, or of a limit key or paused job type (`key`). `part` of the class, 0 to 1; `most` jobs, of which
    `kept`, and so much work, are for requests of the client that were told to come about now."""

    by: Literal["jobs", "work", "key", "paused"]
    part: float
    most: int
    held: int
    held_seconds: float = 0.0  # of work; of a client only
    key: str = ""
    kept: int = 0
    kept_seconds: float = 0.0


@dataclass(frozen=True)
class Decision:
    """`share`: the one that is used up, of share_full. `starts_in_seconds`: when the job would probably start; None: not known, or not looked at."""

    verdict: Verdict
    share: Share | None = None
    starts_in_seconds: float | None = None


def decide(asked: Asked, room: Room, bounds: Bounds, standing: Standing, ahead: Ahead | None = None) -> Decision:
    """`ahead` is needed for a job with a deadline whose cost is known, if a slot is live."""
    starts_in = None if ahead is None else _starts_in(ahead, room.slots)
    late = _against_the_deadline(asked, room.slots, ahead)
    if late is not None:
        return Decision(late, None, starts_in)
    if not room.free(bounds.max_waiting - bounds.kept):
        return Decision("queue_full", None, starts_in)
    if backlog_seconds(room, bounds.processes) > bounds.max_backlog_seconds - bounds.kept_seconds:
        return Decision("queue_full", None, starts_in)
    share = share_over(asked.limit_keys, room, bounds, standing)
    if share is not None:
        return Decision("share_full", share, starts_in)
    if room.slots and not asked.type_known:
        return Decision("type_unavailable", None, starts_in)
    return Decision("admitted", None, starts_in)


def _against_the_deadline(asked: Asked, slots: int, ahead: Ahead | None) -> Verdict | None:
    """Only what the type says of its work shows that a deadline cannot be met; what was measured, and what is ahead, that it probably will not."""
    if asked.deadline_in_seconds is None:
        return None
    left = asked.deadline_in_seconds
    if left - (asked.expected_seconds or 0.0 if asked.declared else 0.0) <= 0:
        return "deadline_infeasible"
    if asked.expected_seconds is None or slots == 0 or ahead is None or ahead.mean_seconds is None:
        return None
    departures = ahead.jobs - slots + 1
    sure = start_probability(departures, slots, ahead.mean_seconds, left - asked.expected_seconds)
    return "deadline_unreachable" if sure < SURE_ENOUGH else None


def _starts_in(ahead: Ahead, slots: int) -> float | None:
    if ahead.jobs < slots:
        return 0.0
    return None if ahead.mean_seconds is None or not slots else (ahead.jobs - slots + 1) * ahead.mean_seconds / slots


# ── The fair share (P10a) ────────────────────────────────────────────────────────────────────────────────────────────


def share_over(limit_keys: tuple[str, ...], room: Room, bounds: Bounds, standing: Standing) -> Share | None:
    """The share that one job more would exceed.

    Never while a process is free, which would be kept from work that there is. By places only while more than half of them are taken, and only beside others. By work too, and from a quarter of the work on beside those that hold
    some: what a client holds is worked off by its part of the slots, so what it is given would wait for longer than the class may take (P5) although
    the class has little work. The client's own turns that are near count as what it holds, up to half of its share, or whoever of it asks next would take what another was told to come for.
    """
    hands, live = room.slots or bounds.processes, room.waiting + room.running
    if standing.part >= 1 or live < hands:
        return None
    places, work = hands + bounds.max_waiting, hands * bounds.max_backlog_seconds
    most = max(1, math.floor(places * standing.part + 1e-9))  # a third of 9 is 3, also by weights of 0.1
    kept = min(standing.own_turns, max(1, most // 2))
    if 2 * (live + kept) > places and standing.jobs + kept >= most:
        return Share("jobs", standing.part, most, standing.jobs, standing.work_seconds, kept=kept)
    each = standing.work_seconds / max(1, standing.jobs)
    kept_seconds = min(standing.own_turns * each, standing.part * work / 2)
    part = _part_of_work(standing, (room.work_seconds + kept_seconds) / work)
    if part is not None and standing.work_seconds + kept_seconds > part * work:
        return Share("work", part, most, standing.jobs, standing.work_seconds, "", kept, kept_seconds)
    return _key_over(limit_keys, places, standing.keys) if 2 * live > places else None


def _part_of_work(standing: Standing, filled: float) -> float | None:
    if filled > 0.5:
        return standing.part
    return standing.part_of_holders if filled > 0.25 else None


def _key_over(limit_keys: tuple[str, ...], places: int, held: Mapping[str, int]) -> Share | None:
    """Keys that are held share equally, with one part for all that holds none."""
    parties = sum(jobs > 0 for jobs in held.values()) + 1
    most = max(1, places // parties)
    over = next((key for key in limit_keys if held.get(key, 0) >= most), None)
    if over is None:
        return None
    by: Literal["key", "paused"] = "paused" if over.startswith(PAUSED) else "key"
    return Share(by, 1 / parties, most, held[over], key=over.removeprefix(PAUSED))


def share_retry_after_seconds(
    share: Share, room: Room, bounds: Bounds, drain: float | None, fallback_seconds: int, places: int = 1
) -> int:
    """Whole seconds, 1 to the cap, after which a caller beyond its share, who needs so many places at once, should come back: when four fifths of the share are
    left of it, at the share's own part of what leaves the class (`drain`, a second; None: not measured). Who wants more than its share can only wait
    until the others want nothing any more."""
    if room.slots == 0:
        return RETRY_AFTER_CAP_SECONDS
    departures = max(1, share.held - math.floor(RESUME_SHARE * share.most), share.held + places - share.most)
    drained = fallback_seconds if drain is None else start_seconds(departures, 1, 1 / (drain * share.part), SHARE_SURE)
    worked_off = 0.0
    if share.by == "work":
        worked_off = share.held_seconds / (room.slots * share.part) - RESUME_SHARE * bounds.max_backlog_seconds
        drained = 0.0
    alone = SEEN_SECONDS if places > share.most else 0.0
    return min(max(1, math.ceil(max(drained, worked_off, alone))), RETRY_AFTER_CAP_SECONDS)


def share_spacing_seconds(share: Share, departure_seconds: float) -> float:
    """Between the turns of one client that has its share, where one leaves the class every so many seconds: as one leaves the share, and the slower the smaller it
    is, since in a share of few places there is nothing to make up for one that leaves late."""
    return departure_seconds / share.part * (1 + 1 / share.most)
