"""The turns of one process, for while Redis is away; the same steps as the script in turns.py (P10)."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from jobs.capacity import RETRY_AFTER_CAP_SECONDS, turn_at

GRACE_SECONDS = 5.0  # after its turn in which a caller counts as returned, at least
GRACE_SHARE = 0.25  # of its wait


@dataclass(frozen=True)
class Turn:
    """When it is, and until when its caller counts as returned; by this process's clock."""

    at: float
    until: float


class LocalTurns:
    """By class, client and key. A client holds at most `most` turns that are still to come, and as many that have been."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}  # by line: a class's, or one of a client that has its share of it
        self._latest: dict[str, float] = {}  # by class, of all its lines
        self._turns: dict[tuple[str, int], dict[str, Turn]] = {}

    def take(
        self,
        cost_class: str,
        client: int,
        key: str,
        base: float,
        spacing: float,
        jitter: float,
        most: int,
        again: bool,
        line: str = "",
    ) -> tuple[int, bool]:
        """Whole seconds until its turn, and whether it came at the one it had. `again`: whether it can come under its key. `line`: whose last turn it is
        behind, if not the class's."""
        with self._lock:
            now = self._clock()
            turns = self._held(cost_class, client, now)
            held = turns.get(key)
            if held and held.at > now:
                return _left(held.at, now), False
            returned = turns.pop(key, None) is not None
            to_come = [turn.at for turn in turns.values() if turn.at > now]
            if len(to_come) >= most:
                return _left(max(to_come), now), returned
            turn = min(turn_at(now, base, self._last.get(line or cost_class), spacing), now + RETRY_AFTER_CAP_SECONDS)
            at = min(turn + math.floor(_left(turn, now) * jitter), now + RETRY_AFTER_CAP_SECONDS)
            while len(turns) >= 2 * most:
                del turns[min(turns, key=lambda one: turns[one].at)]
            self._last[line or cost_class] = self._latest[cost_class] = turn
            turns[key] = Turn(at, at + max(GRACE_SECONDS, GRACE_SHARE * (at - now)) if again else at)
            return _left(at, now), returned

    def came(self, cost_class: str, client: int, key: str) -> bool:
        """Whether an admitted caller came at its turn, which it then no longer holds."""
        with self._lock:
            now = self._clock()
            turn = self._held(cost_class, client, now).pop(key, None)
            return turn is not None and turn.at <= now

    def refused_lately(self, cost_class: str) -> bool:
        with self._lock:
            last = self._latest.get(cost_class)
            return last is not None and self._clock() <= last + RETRY_AFTER_CAP_SECONDS

    def forget(self) -> None:
        with self._lock:
            self._last.clear()
            self._latest.clear()
            self._turns.clear()

    def _held(self, cost_class: str, client: int, now: float) -> dict[str, Turn]:
        before = self._turns.get((cost_class, client), {})
        kept = self._turns[cost_class, client] = {key: turn for key, turn in before.items() if turn.until >= now}
        return kept


def _left(at: float, now: float) -> int:
    return max(1, min(RETRY_AFTER_CAP_SECONDS, math.ceil(at - now - 0.001)))
