"""From targets to a size: the fewest processes, and the room of which even the last place starts in time. No Django.

The waiting room is as large as the wait target lets it be, since a place that starts in time refuses nobody; a larger one would turn a
refusal, which is honest at once, into a wait that is too long.
"""

import math
from dataclasses import dataclass

from jobs.capacity import departures_within
from workers.planning.queueing import Prediction, predict, refusal_share

MOST_SLOTS = 256  # the most processes that a class may have


@dataclass(frozen=True)
class Load:
    """What comes: jobs per second, and how long one runs in the mean."""

    rate: float
    service_seconds: float

    @property
    def offered(self) -> float:
        """How many slots it keeps busy if nothing is refused."""
        return self.rate * self.service_seconds


@dataclass(frozen=True)
class Targets:
    """wait_seconds: within which the last place of the room starts, with probability 0.95. refusal_share: the most that may be refused."""

    wait_seconds: float
    refusal_share: float


@dataclass(frozen=True)
class Size:
    slots: int
    max_waiting: int
    prediction: Prediction


def smallest(load: Load, targets: Targets, max_waiting: int | None = None) -> Size | None:
    """The fewest slots that meet the targets, with the largest room that does, or the room given; None if no class is large enough."""
    fewest = max(1, math.floor(load.offered * (1 - targets.refusal_share)))  # fewer could not do what is admitted
    for slots in range(fewest, MOST_SLOTS + 1):
        in_time = room_for(load, targets, slots)
        room = in_time if max_waiting is None else max_waiting
        if room <= in_time and refusal_share(load.rate, load.service_seconds, slots, room) <= targets.refusal_share:
            return sized(load, slots, room)
    return None


def room_for(load: Load, targets: Targets, slots: int) -> int:
    """The largest waiting room of which even the last place starts within the wait target."""
    return departures_within(slots, load.service_seconds, targets.wait_seconds)


def sized(load: Load, slots: int, max_waiting: int) -> Size:
    return Size(slots, max_waiting, predict(load.rate, load.service_seconds, slots, max_waiting))
