"""How fast a class drains and when to come back. Pure arithmetic; durations in seconds."""

import math
from dataclasses import dataclass

DRAIN_WINDOW_SECONDS = 60.0  # quick enough to follow a change
DRAIN_NEEDS = 5  # departures; fewer say nothing steady
RETRY_AFTER_CAP_SECONDS = 300  # longer is another day's problem
RESUME_SHARE = 0.8  # come back when a fifth of the waiting room is free, not for the first place


@dataclass(frozen=True)
class Room:
    """One class at one instant: jobs that wait, jobs that run, slots of live nodes."""

    waiting: int
    running: int
    slots: int

    def bound(self, max_waiting: int) -> int:
        return self.slots + max_waiting

    def free(self, max_waiting: int) -> int:
        """Jobs that would be admitted now; never negative."""
        return max(0, self.bound(max_waiting) - self.waiting - self.running)


def drain_per_second(departures: int, over_seconds: float) -> float | None:
    """Jobs that leave the class per second, all ways of leaving; None if too few were seen."""
    if departures < DRAIN_NEEDS or over_seconds <= 0:
        return None
    return departures / over_seconds


def retry_after_seconds(
    room: Room, max_waiting: int, drain: float | None, fallback_seconds: int, places: int = 1
) -> int:
    """Whole seconds, 1 to the cap, after which a refused caller, who needs so many places at once, should come back.

    Without a measured drain it is what the class's configuration says; with no worker alive to drain
    anything it is the cap.
    """
    if room.slots == 0:
        return RETRY_AFTER_CAP_SECONDS
    if drain is None:
        return min(fallback_seconds, RETRY_AFTER_CAP_SECONDS)
    departures = max(1, room.waiting - math.floor(RESUME_SHARE * max_waiting), places - room.free(max_waiting))
    return min(max(1, math.ceil(departures / drain)), RETRY_AFTER_CAP_SECONDS)
