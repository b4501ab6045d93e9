"""The turns of one process, for while Redis is away; the same steps as the scripts of in_redis (P10)."""

import itertools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from jobs.capacity import RETRY_AFTER_CAP_SECONDS, turn_at
from jobs.turns.book import GRACE_SECONDS, GRACE_SHARE, Caller, Refusal, Seen, Turn


@dataclass(frozen=True)
class Entry:
    """When a turn is, until when its caller counts as returned, and whether a place of the class is kept for it."""

    at: float
    until: float
    of_class: bool


class InProcess:
    """By class, client and key. A client holds at most `most` turns that are still to come, and as many that have been."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[str, int | None], float] = {}  # of a class, or of a client there that has its share
        self._departure: dict[str, float] = {}
        self._turns: dict[tuple[str, int], dict[str, Entry]] = {}
        self._names = itertools.count()

    def arrive(self, cost_class: str, caller: Caller, departures: int) -> Seen:
        with self._lock:
            now = self._clock()
            turns = self._held(cost_class, caller.client, now)
            due = [key for key, turn in turns.items() if turn.at <= now and _may_be(caller, key)]
            if due:
                del turns[min(due, key=lambda key: turns[key].at)]
                return Seen(returned=True)
            departure = self._departure.get(cost_class, 0.0)
            ahead = departures * departure
            near = sum(turn.of_class and -GRACE_SECONDS <= turn.at - now <= ahead for turn in self._all(cost_class))
            return Seen(near=near, departure=departure)

    def take(self, cost_class: str, caller: Caller, refusal: Refusal) -> Turn:
        with self._lock:
            now = self._clock()
            turns = self._held(cost_class, caller.client, now)
            name = f"-{next(self._names)}" if caller.key is None else caller.key
            if name in turns and turns[name].at > now:
                return Turn(_left(turns[name].at, now))
            turns.pop(name, None)
            to_come = [turn.at for turn in turns.values() if turn.at > now]
            if len(to_come) >= refusal.most:
                return Turn(_left(max(to_come), now))
            while len(turns) >= 2 * refusal.most:
                del turns[min(turns, key=lambda one: turns[one].at)]
            at = self._next(cost_class, caller, refusal, now)
            until = at + max(GRACE_SECONDS, GRACE_SHARE * (at - now))
            turns[name] = Entry(at, until, of_class=not refusal.over_share)
            return Turn(_left(at, now))

    def _next(self, cost_class: str, caller: Caller, refusal: Refusal, now: float) -> float:
        line = cost_class, caller.client if refusal.over_share else None
        latest = now + RETRY_AFTER_CAP_SECONDS
        turn = self._last[line] = min(turn_at(now, refusal.base, self._last.get(line), refusal.spacing), latest)
        if not refusal.over_share:
            self._departure[cost_class] = refusal.departure
        return min(turn + math.floor(_left(turn, now) * refusal.jitter), latest)

    def anyone_expected(self, cost_class: str) -> bool:
        with self._lock:
            now = self._clock()
            return any(turn.until >= now for turn in self._all(cost_class))

    def forget(self) -> None:
        with self._lock:
            self._last.clear()
            self._departure.clear()
            self._turns.clear()

    def _held(self, cost_class: str, client: int, now: float) -> dict[str, Entry]:
        before = self._turns.get((cost_class, client), {})
        kept = self._turns[cost_class, client] = {key: turn for key, turn in before.items() if turn.until >= now}
        return kept

    def _all(self, cost_class: str) -> list[Entry]:
        return [turn for (name, _), turns in self._turns.items() if name == cost_class for turn in turns.values()]


def _may_be(caller: Caller, key: str) -> bool:
    """Whether the turn under this key is the caller's; one without a key has those without one."""
    return key.startswith("-") if caller.key is None else key == caller.key


def _left(at: float, now: float) -> int:
    return max(1, min(RETRY_AFTER_CAP_SECONDS, math.ceil(at - now - 0.001)))
