"""What the door of a class goes by, kept up as events come: departures, run times, work that is left. Instants are seconds. No Django."""

from collections import deque
from heapq import heappop, heappush

from jobs.capacity import DRAIN_WINDOW_SECONDS, drain_per_second
from jobs.expected_cost import expected_cost

RUNS_KEPT = 100  # of a type, as jobs/costs.py keeps them
LEARNT_EVERY_SECONDS = 1.0  # as often as the sweep
SHORTEST_COST_SECONDS = 0.001
UNKNOWN_COST_SECONDS = 1.0  # what a job counts in the order while nothing is known of its class


class Departures:
    """All ways of leaving count, over the last minute or since the first of those that left was accepted if that is shorter."""

    def __init__(self) -> None:
        self._left: deque[tuple[float, float]] = deque()

    def note(self, now: float, accepted_at: float) -> None:
        self._left.append((now, accepted_at))

    def per_second(self, now: float) -> float | None:
        while self._left and self._left[0][0] <= now - DRAIN_WINDOW_SECONDS:
            self._left.popleft()
        if not self._left:
            return None
        return drain_per_second(len(self._left), min(DRAIN_WINDOW_SECONDS, now - self._left[0][1]))


class RunTimes:
    """Of one class, by kind of job. What was run lately is known a second later at most."""

    def __init__(self) -> None:
        self._newest: dict[str, deque[float]] = {}
        self._expected: dict[str, float] = {}
        self._changed: set[str] = set()
        self._learn_at = 0.0
        self.mean: float | None = None

    def note(self, kind: str, run_seconds: float) -> None:
        self._newest.setdefault(kind, deque(maxlen=RUNS_KEPT)).append(run_seconds)
        self._changed.add(kind)

    def expected(self, kind: str, now: float) -> float | None:
        """Seconds of work; None: not known."""
        if now >= self._learn_at:
            self._learn_at = now + LEARNT_EVERY_SECONDS
            self._learn()
        return self._expected.get(kind)

    def _learn(self) -> None:
        for kind in self._changed:
            cost = expected_cost(self._newest[kind])
            if cost is not None:
                self._expected[kind] = cost
        self._changed.clear()
        runs = {kind: len(self._newest[kind]) for kind in self._expected}
        if runs:
            self.mean = sum(self._expected[kind] * count for kind, count in runs.items()) / sum(runs.values())

    def counts(self, expected: float | None) -> float:
        """What a job counts in the order."""
        known = self.mean if expected is None else expected
        return max(UNKNOWN_COST_SECONDS if known is None else known, SHORTEST_COST_SECONDS)


class WorkLeft:
    """Expected seconds of work that wait or are still to be done; a job that runs for longer than expected has none left."""

    def __init__(self) -> None:
        self._waiting: dict[int, float] = {}
        self._waiting_sum = 0.0
        self._ends: dict[int, float] = {}  # of running jobs, as expected
        self._ends_sum = 0.0
        self._by_end: list[tuple[float, int]] = []

    def wait(self, sequence: int, expected: float) -> None:
        self._waiting[sequence] = expected
        self._waiting_sum += expected

    def leave_line(self, sequence: int) -> float:
        expected = self._waiting.pop(sequence)
        self._waiting_sum = self._waiting_sum - expected if self._waiting else 0.0  # and no rounding is kept
        return expected

    def start(self, sequence: int, now: float) -> None:
        end = now + self.leave_line(sequence)
        self._ends[sequence] = end
        self._ends_sum += end
        heappush(self._by_end, (end, sequence))

    def finish(self, sequence: int) -> None:
        end = self._ends.pop(sequence, None)
        if end is not None:
            self._ends_sum = self._ends_sum - end if self._ends else 0.0

    def seconds(self, now: float) -> float:
        while self._by_end and (self._by_end[0][0] <= now or self._by_end[0][1] not in self._ends):
            self.finish(heappop(self._by_end)[1])
        return max(0.0, self._waiting_sum) + max(0.0, self._ends_sum - len(self._ends) * now)
