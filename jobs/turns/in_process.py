"""The turns of one process, for while Redis is away and for the simulator; the same steps as the scripts of in_redis (P10)."""

import itertools
import math
import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from jobs.capacity import RETRY_AFTER_CAP_SECONDS, turn_at
from jobs.turns.book import GRACE_SECONDS, GRACE_SHARE, NEWEST_COUNTS, SHARED_SECONDS, Caller, Refusal, Seen, Turn


@dataclass
class _Line:
    """Turns one after another: those of a class, or those of a client there that has its share. to_come: in their order, those for which something is kept."""

    last: float | None = None
    spacing: float = 0.0
    departure: float = 0.0
    to_come: list[float] = field(default_factory=list)

    def next(self, refusal: Refusal, now: float) -> float:
        latest = now + RETRY_AFTER_CAP_SECONDS
        turn = self.last = min(turn_at(now, refusal.base, self.last, self.spacing), latest)
        return min(turn + math.floor(_left(turn, now) * refusal.jitter), latest)

    def near(self, now: float, departures: int) -> int:
        return bisect_right(self.to_come, now + departures * self.departure) - bisect_left(
            self.to_come, now - GRACE_SECONDS
        )

    def tidy(self, now: float) -> None:
        del self.to_come[: bisect_left(self.to_come, now - GRACE_SECONDS)]

    def strike(self, at: float) -> None:
        place = bisect_left(self.to_come, at)
        if self.to_come[place : place + 1] == [at]:  # it may be over already
            del self.to_come[place]


@dataclass(frozen=True)
class _Entry:
    """When a turn is, until when its caller counts as returned, and of what something is kept for it; None: nothing."""

    at: float
    until: float
    kept_of: _Line | None


@dataclass
class _OfClass:
    line: _Line = field(default_factory=_Line)
    expected_until: float = -math.inf


@dataclass
class _OfClient:
    """Its turns in one class, by key, and in the orders in which they come and end; and at what share of them it came lately."""

    own: _Line = field(default_factory=_Line)
    had_its_share_at: float = -math.inf
    came: float = 1.0
    to_keep: float = 0.0  # a whole one is a turn for which something is kept
    entries: dict[str, _Entry] = field(default_factory=dict)
    by_at: list[tuple[float, str]] = field(default_factory=list)
    by_until: list[tuple[float, str]] = field(default_factory=list)

    def to_come(self, now: float) -> int:
        return len(self.by_at) - bisect_right(self.by_at, now, key=_instant)

    def note(self, came: bool) -> None:
        self.came += (came - self.came) * NEWEST_COUNTS

    def keeps(self) -> bool:
        """For as many of its turns as it comes at."""
        self.to_keep += self.came
        keeps = self.to_keep > 1 - 1e-5
        self.to_keep -= keeps
        return keeps

    def strike(self, key: str) -> None:
        entry = self.entries.pop(key)
        del self.by_at[bisect_left(self.by_at, (entry.at, key))]
        del self.by_until[bisect_left(self.by_until, (entry.until, key))]
        if entry.kept_of is not None:
            entry.kept_of.strike(entry.at)

    def due(self, key: str | None, now: float) -> str | None:
        """Whose turn has come: one without a key has the first of those without one."""
        if key is not None:
            return key if key in self.entries and self.entries[key].at <= now else None
        come = self.by_at[: bisect_right(self.by_at, now, key=_instant)]
        return next((name for _, name in come if name.startswith("-")), None)


class InProcess:
    """By class, client and key. A client holds at most `most` turns that are still to come, and as many that have been."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names = itertools.count()
        self.forget()

    def arrive(self, cost_class: str, caller: Caller, departures: int) -> Seen:
        with self._lock:
            now = self._clock()
            of_class, of_client = self._held(cost_class, caller.client, now)
            due = of_client.due(caller.key, now)
            if due is not None:
                of_client.strike(due)
                of_client.note(came=True)
                return Seen(returned=True)
            line = of_class.line
            return Seen(False, line.near(now, departures), line.departure, of_client.own.near(now, departures))

    def take(self, cost_class: str, caller: Caller, refusal: Refusal) -> Turn:
        with self._lock:
            now = self._clock()
            of_class, of_client = self._held(cost_class, caller.client, now)
            name = f"-{next(self._names)}" if caller.key is None else caller.key
            if name in of_client.entries:
                if of_client.entries[name].at > now:
                    return Turn(_left(of_client.entries[name].at, now))
                of_client.strike(name)
            if of_client.to_come(now) >= refusal.most:
                return Turn(_left(of_client.by_at[-1][0], now))
            while len(of_client.entries) >= 2 * refusal.most:
                of_client.strike(of_client.by_at[0][1])
            line = self._line(of_class, of_client, refusal, now)
            at = line.next(refusal, now)
            until = at + max(GRACE_SECONDS, GRACE_SHARE * (at - now))
            entry = _Entry(at, until, line if of_client.keeps() else None)
            if entry.kept_of is not None:
                insort(line.to_come, at)
            of_client.entries[name] = entry
            insort(of_client.by_at, (entry.at, name))
            insort(of_client.by_until, (entry.until, name))
            of_class.expected_until = max(of_class.expected_until, entry.until)
            return Turn(_left(at, now))

    def _line(self, of_class: _OfClass, of_client: _OfClient, refusal: Refusal, now: float) -> _Line:
        if refusal.over_share:
            of_client.had_its_share_at = now
        own = of_client.had_its_share_at > now - SHARED_SECONDS
        line = of_client.own if own else of_class.line
        if refusal.over_share or not own:
            line.spacing, line.departure = refusal.spacing, refusal.departure
        return line

    def anyone_expected(self, cost_class: str) -> bool:
        with self._lock:
            return self._of_class[cost_class].expected_until >= self._clock()

    def forget(self) -> None:
        with self._lock:
            self._of_class: defaultdict[str, _OfClass] = defaultdict(_OfClass)
            self._of_client: defaultdict[tuple[str, int], _OfClient] = defaultdict(_OfClient)

    def _held(self, cost_class: str, client: int, now: float) -> tuple[_OfClass, _OfClient]:
        """Without what is over."""
        of_class, of_client = self._of_class[cost_class], self._of_client[cost_class, client]
        while of_client.by_until and of_client.by_until[0][0] < now:
            of_client.strike(of_client.by_until[0][1])
            of_client.note(came=False)
        of_class.line.tidy(now)
        of_client.own.tidy(now)
        return of_class, of_client


def _instant(turn: tuple[float, str]) -> float:
    return turn[0]


def _left(at: float, now: float) -> int:
    return max(1, min(RETRY_AFTER_CAP_SECONDS, math.ceil(at - now - 0.001)))
