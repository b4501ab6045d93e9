"""Who wants room of a class: those that hold some, and those that came for it in the last minute, as the fair door sees them (P10a). No Django."""

from collections import Counter, deque

from jobs.decision import SEEN_SECONDS, Standing
from workers.simulating.measures import WorkLeft


class Present:
    def __init__(self) -> None:
        self._jobs: Counter[str] = Counter()
        self._work: dict[str, WorkLeft] = {}
        self._came_at: dict[str, float] = {}
        self._coming: deque[tuple[float, str]] = deque()
        self._weights: dict[str, float] = {}  # of all that are present
        self._weight = 0.0
        self._weight_of_holders = 0.0

    def came(self, client: str, weight: float, now: float) -> None:
        """It was let in, or refused for want of room."""
        self._came_at[client] = now
        self._coming.append((now, client))
        if client not in self._weights:
            self._weights[client] = weight
            self._weight += weight

    def standing(self, client: str, weight: float, now: float) -> Standing:
        self._forget(now)
        held, work = self._jobs.get(client, 0), self._work.get(client)
        seen = _part(weight, self._weight, client in self._weights, len(self._weights))
        holding = _part(weight, self._weight_of_holders, held > 0, len(self._jobs))
        return Standing(seen, holding, held, 0.0 if work is None else work.seconds(now))

    def wait(self, client: str, sequence: int, expected: float) -> None:
        if not self._jobs[client]:
            self._weight_of_holders += self._weights[client]
        self._jobs[client] += 1
        self._work.setdefault(client, WorkLeft()).wait(sequence, expected)

    def start(self, client: str, sequence: int, now: float) -> None:
        self._work[client].start(sequence, now)

    def leave_line(self, client: str, sequence: int, now: float) -> None:
        self._work[client].leave_line(sequence)
        self._let_go(client, now)

    def finish(self, client: str, sequence: int, now: float) -> None:
        self._work[client].finish(sequence)
        self._let_go(client, now)

    def _let_go(self, client: str, now: float) -> None:
        self._jobs[client] -= 1
        if not self._jobs[client]:
            del self._jobs[client], self._work[client]
            self._weight_of_holders -= self._weights[client]
            if self._came_at[client] <= now - SEEN_SECONDS:
                self._gone(client)

    def _forget(self, now: float) -> None:
        while self._coming and self._coming[0][0] <= now - SEEN_SECONDS:
            at, client = self._coming.popleft()
            if self._came_at.get(client) == at and client not in self._jobs:
                self._gone(client)

    def _gone(self, client: str) -> None:
        self._weight -= self._weights.pop(client, 0.0)
        self._came_at.pop(client, None)


def _part(weight: float, of_all: float, counted: bool, clients: int) -> float:
    """Of a client beside others, who are counted with it or without; exactly 1 if there are none."""
    return 1.0 if clients == counted else weight / (of_all if counted else of_all + weight)
