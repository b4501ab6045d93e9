"""Who was refused in a class within the last minute, for want of room, as far as this process knows (P10a): they want some of it, and no row says so, since a
refusal writes nothing (P7). With the turn of a refused caller Redis tells whom other processes refused (`turns`). Bounded: of more clients the ones refused
longest ago are forgotten."""

import threading
import time

from jobs.decision import SEEN_SECONDS

MOST_CLIENTS = 1_000  # of a class; each is a number that goes with every admission
WANT_ROOM = frozenset({"queue_full", "share_full"})  # refusals of those who would have taken a place


class RefusedLately:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_class: dict[str, dict[int, float]] = {}

    def note(self, cost_class: str, client_id: int, seconds_ago: float = 0.0) -> None:
        at = time.monotonic() - seconds_ago
        with self._lock:
            clients = self._by_class.setdefault(cost_class, {})
            clients[client_id] = max(at, clients.get(client_id, at))
            if len(clients) > MOST_CLIENTS:
                del clients[min(clients, key=lambda one: clients[one])]

    def of(self, cost_class: str) -> list[int]:
        """Their ids."""
        if cost_class not in self._by_class:
            return []
        since = time.monotonic() - SEEN_SECONDS
        with self._lock:
            clients = self._by_class[cost_class]
            kept = {client: at for client, at in clients.items() if at > since}
            self._by_class[cost_class] = kept
            return sorted(kept)

    def forget(self) -> None:
        with self._lock:
            self._by_class.clear()


HERE = RefusedLately()
