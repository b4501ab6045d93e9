"""How fast a class drains, how soon a job would start, and when to come back (P10). Pure arithmetic; durations in seconds.

A place in the queue is told as departures: how many jobs have to leave before the one in question starts. While `slots`
processes are busy with run times of `service_seconds` in the mean, departures are taken for a Poisson process of rate
slots ÷ service_seconds: exact for exponential run times, and on the safe side for those that vary less.
"""

import math
from dataclasses import dataclass

DRAIN_WINDOW_SECONDS = 60.0  # quick enough to follow a change
DRAIN_NEEDS = 5  # departures; fewer say nothing steady
IDLED_SHARE = 0.5  # of what its slots can do: a class that drained more slowly had not enough to do
RETRY_AFTER_CAP_SECONDS = 300  # longer is another day's problem
RESUME_SHARE = 0.8  # come back when a fifth of the waiting room is free, not for the first place
KEPT_AT_LEAST = 8  # places; nine of ten that come at their turn then find one (docs/decisions/0017-places-kept.md)
SURE_ENOUGH = 0.95  # of a start in time: one promise in twenty may be broken by bad luck
MOST_DEPARTURES = 10_000  # the largest waiting room there is


@dataclass(frozen=True)
class Room:
    """One class at one instant: jobs that wait, jobs that run, slots of live nodes, and the work there is for them."""

    waiting: int
    running: int
    slots: int
    work_seconds: float = 0.0  # expected, of what waits and what runs; unknown counts 0 (P5)

    def bound(self, max_waiting: int) -> int:
        return self.slots + max_waiting

    def free(self, max_waiting: int) -> int:
        """Jobs that would be admitted now; never negative."""
        return max(0, self.bound(max_waiting) - self.waiting - self.running)


def backlog_seconds(room: Room, processes: int) -> float:
    """How long the work ahead takes all slots together (P5); while none is live, the configured processes stand for them."""
    return room.work_seconds / (room.slots or processes)


def worked_off_in_seconds(backlog: float, max_backlog: float) -> float:
    """After how long the work ahead has gone down to RESUME_SHARE of its bound: a second of it a second, while all slots are busy."""
    return max(0.0, backlog - RESUME_SHARE * max_backlog)


def drain_per_second(departures: int, over_seconds: float) -> float | None:
    """Jobs that leave the class per second, all ways of leaving; None if too few were seen."""
    if departures < DRAIN_NEEDS or over_seconds <= 0:
        return None
    return departures / over_seconds


def departures_per_second(drain: float | None, slots: int, run_seconds: float | None) -> float | None:
    """What was measured, unless the slots could do more than IDLED_SHARE says; None if neither is known.

    Between two jobs a process settles one and claims the next, so that of short jobs what is measured under load is less than slots ÷ run_seconds, and turns that
    far apart would come before there is room. But a class that idled until a burst has a slow drain, which says nothing of its capacity.
    """
    can = slots / run_seconds if slots and run_seconds else None
    if not drain or can is None:
        return drain or can
    return drain if drain >= IDLED_SHARE * can else can


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


def most_kept(max_waiting: int) -> int:
    """Places of a waiting room that may be kept for callers whose turn is near: what is free when they are told to come.

    Of a small room a fifth is too few for turns that come by chance sooner or later, so it is KEPT_AT_LEAST, but never more than half; of a
    room with fewer places than that there is nothing to keep.
    """
    if max_waiting < KEPT_AT_LEAST:
        return 0
    return max(max_waiting - math.floor(RESUME_SHARE * max_waiting), min(KEPT_AT_LEAST, max_waiting // 2))


def kept_places(near: int, each_seconds: float, max_waiting: int, max_backlog_seconds: float) -> int:
    """For so many turns that are near. `each_seconds`: what one job takes all slots together; 0: that is not known.

    Where jobs are long it is their work that fills a class, with fewer of them than there are places; of unknown work nothing does.
    """
    fit = max_backlog_seconds / each_seconds if each_seconds else math.inf
    return min(near, most_kept(int(min(max_waiting, fit))))


def turn_at(now: float, base_seconds: float, last_turn_at: float | None, spacing_seconds: float) -> float:
    """When a refused caller should come back, so that callers refused in a row are sent to different turns.

    Instants are seconds of one clock. base_seconds is the time that the next free places take; spacing_seconds what one
    departure takes, service_seconds ÷ slots. The answer is the `last_turn_at` of the next call.
    """
    first = now + base_seconds
    return first if last_turn_at is None else max(first, last_turn_at + spacing_seconds)


def start_probability(departures: int, slots: int, service_seconds: float, within_seconds: float) -> float:
    """Of so many departures in this time: 1 − PoissonCDF(departures − 1; slots · t ÷ service_seconds), the Erlang tail."""
    if departures <= 0:
        return 1.0
    if within_seconds <= 0 or slots <= 0:
        return 0.0
    return 1.0 - poisson_cdf(departures - 1, slots * within_seconds / service_seconds)


def start_seconds(departures: int, slots: int, service_seconds: float, sure: float = SURE_ENOUGH) -> float:
    """The time in which so many departures will have happened with probability `sure`; 0 if none is needed."""
    if departures <= 0 or service_seconds <= 0:
        return 0.0
    low, high = 0.0, departures * service_seconds / slots
    while start_probability(departures, slots, service_seconds, high) < sure:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if start_probability(departures, slots, service_seconds, middle) < sure:
            low = middle
        else:
            high = middle
    return high


def departures_within(slots: int, service_seconds: float, within_seconds: float, sure: float = SURE_ENOUGH) -> int:
    """The most departures that will have happened in this time with probability `sure`, up to MOST_DEPARTURES.

    It is the largest waiting room whose last place still starts in time.
    """
    low, high = 0, MOST_DEPARTURES
    while low < high:
        middle = (low + high + 1) // 2
        if start_probability(middle, slots, service_seconds, within_seconds) >= sure:
            low = middle
        else:
            high = middle - 1
    return low


def poisson_cdf(count: int, mean: float) -> float:
    """P(at most `count` events of a Poisson process that has `mean` of them on average).

    The terms are added from the largest on, each in logarithms, so no mean is too large for it.
    """
    if mean <= 0:
        return 1.0
    largest = min(count, math.floor(mean))
    log_term = largest * math.log(mean) - mean - math.lgamma(largest + 1)
    below = _falling(largest, mean)
    above = _rising(largest, count, mean)
    return min(1.0, math.exp(log_term) * (1.0 + below + above))


def _falling(start: int, mean: float) -> float:
    """Σ of the terms before `start`, as multiples of that term."""
    total, term = 0.0, 1.0
    for n in range(start, 0, -1):
        term *= n / mean
        total += term
        if term < 1e-18 * (1.0 + total):
            break
    return total


def _rising(start: int, end: int, mean: float) -> float:
    """Σ of the terms after `start` up to `end`, as multiples of that term."""
    total, term = 0.0, 1.0
    for n in range(start + 1, end + 1):
        term *= mean / n
        total += term
        if term < 1e-18 * (1.0 + total):
            break
    return total
