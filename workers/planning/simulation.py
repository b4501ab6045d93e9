"""The same line, played job by job with run times as they are, where queueing takes them to be exponential. No Django."""

import random
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heapreplace

from workers.planning.queueing import Prediction

JOBS = 50_000  # the p99 is then made of 500 waits; a tenth of a second on a fast machine
WARM_UP = 5_000  # while the line is still shorter than it will be


def play(
    rate: float, run_times: Sequence[float], slots: int, max_waiting: int, seed: int = 1, jobs: int = JOBS
) -> Prediction:
    """First come, first served, arrivals by chance, run times drawn from those given. The same seed gives the same figures."""
    draws = random.Random(seed)
    free_at = [0.0] * slots
    heapify(free_at)
    starts: deque[float] = deque()  # of jobs that wait; in order, since they start in order
    waits: list[float] = []
    now = busy = counted_from = 0.0
    refused = 0
    for number in range(jobs + WARM_UP):
        now += draws.expovariate(rate)
        if number == WARM_UP:
            counted_from, refused, busy, waits = now, 0, 0.0, []
        while starts and starts[0] <= now:
            starts.popleft()
        if free_at[0] > now and len(starts) >= max_waiting:
            refused += 1
            continue
        start = max(now, free_at[0])
        run = draws.choice(run_times)
        heapreplace(free_at, start + run)
        starts.append(start)
        waits.append(start - now)
        busy += run
    return _figures(waits, refused, min(1.0, busy / slots / (now - counted_from)))


def _figures(waits: list[float], refused: int, utilisation: float) -> Prediction:
    waits.sort()
    return Prediction(
        refusal_share=refused / (refused + len(waits)),
        mean_wait_seconds=sum(waits) / len(waits),
        p50_wait_seconds=waits[len(waits) // 2],
        p95_wait_seconds=waits[int(0.95 * len(waits))],
        p99_wait_seconds=waits[int(0.99 * len(waits))],
        utilisation=utilisation,
    )
