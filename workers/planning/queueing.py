"""The line before a class as an M/M/c/K queue: c slots, room for K = c + max_waiting jobs, whoever finds it full is refused. No Django.

Arrivals are a Poisson process of `rate` per second, run times exponential of mean `service_seconds`. The chain has no other states
than its K + 1 counts of jobs, so it settles for any load, also above what the slots can do. Everything is computed in
logarithms: the powers and factorials of a large class have no doubles.
"""

import math
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Prediction:
    """What callers meet once the line has settled. Waits are those of the jobs that are admitted, in seconds."""

    refusal_share: float
    mean_wait_seconds: float
    p50_wait_seconds: float
    p95_wait_seconds: float
    p99_wait_seconds: float
    utilisation: float


def predict(rate: float, service_seconds: float, slots: int, max_waiting: int) -> Prediction:
    """Figures of a class with these numbers. Raises ValueError for one that is none."""
    line = _Line(rate, service_seconds, slots, max_waiting)
    return Prediction(
        refusal_share=line.refusal_share,
        mean_wait_seconds=line.mean_wait_seconds(),
        p50_wait_seconds=line.wait_quantile(0.50),
        p95_wait_seconds=line.wait_quantile(0.95),
        p99_wait_seconds=line.wait_quantile(0.99),
        utilisation=min(1.0, rate * line.admitted_share * service_seconds / slots),  # rounding may go past 1
    )


def refusal_share(rate: float, service_seconds: float, slots: int, max_waiting: int) -> float:
    """Of all that arrive, how many find the class full."""
    return _Line(rate, service_seconds, slots, max_waiting).refusal_share


def wait_exceeds(rate: float, service_seconds: float, slots: int, max_waiting: int, seconds: float) -> float:
    """The probability that an admitted job waits longer than this."""
    return _Line(rate, service_seconds, slots, max_waiting).wait_exceeds(seconds)


class _Line:
    def __init__(self, rate: float, service_seconds: float, slots: int, max_waiting: int) -> None:
        for name, value in (("rate", rate), ("service_seconds", service_seconds), ("slots", slots)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value!r}, but must be a number above 0.")
        if max_waiting < 0:
            raise ValueError(f"max_waiting is {max_waiting!r}, but must be 0 or more.")
        self._slots = slots
        self._service_seconds = service_seconds
        shares = _stationary(rate * service_seconds, slots, max_waiting)
        self.refusal_share = shares[-1]
        self.admitted_share = math.fsum(shares[:-1])  # not 1 - refusal_share, of which an overload leaves no digits
        # Of those admitted, who finds all slots busy and j jobs waiting, for j from 0.
        self._queued = [share / self.admitted_share for share in shares[slots:-1]]
        self._at_least = list(accumulate(reversed(self._queued)))[::-1]  # who finds j waiting or more

    def mean_wait_seconds(self) -> float:
        """One that finds j waiting needs j + 1 departures of service_seconds ÷ slots each."""
        departures = math.fsum((j + 1) * share for j, share in enumerate(self._queued))
        return departures * self._service_seconds / self._slots

    def wait_exceeds(self, seconds: float) -> float:
        """Whoever finds j waiting still waits after that time if it saw at most j departures (Erlang)."""
        if not self._at_least or seconds < 0:
            return 0.0 if seconds >= 0 else 1.0
        mean = self._slots * seconds / self._service_seconds
        if mean == 0:
            return self._at_least[0]
        log_mean = math.log(mean)
        reach = 12 * math.sqrt(mean) + 30  # of the counts further from the mean not one in 10^30 happens
        some = range(max(0, math.floor(mean - reach)), min(len(self._at_least), math.ceil(mean + reach)))
        return math.fsum(math.exp(n * log_mean - mean - math.lgamma(n + 1)) * self._at_least[n] for n in some)

    def wait_quantile(self, share: float) -> float:
        """The shortest time that this share of the admitted jobs waits at most."""
        if self.wait_exceeds(0.0) <= 1 - share:
            return 0.0
        high = self._service_seconds / self._slots
        while self.wait_exceeds(high) > 1 - share:
            high *= 2
        low = 0.0
        while high - low > 1e-10 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.wait_exceeds(middle) > 1 - share else (low, middle)
        return high


def _stationary(offered: float, slots: int, max_waiting: int) -> list[float]:
    """How much of the time each number of jobs is there, from 0 to slots + max_waiting. offered = rate · service_seconds."""
    log_offered = math.log(offered)
    log_busy = log_offered - math.log(slots)  # with all slots busy, each further job is this much less likely
    logs = [n * log_offered - math.lgamma(n + 1) for n in range(slots + 1)]
    logs += [logs[slots] + n * log_busy for n in range(1, max_waiting + 1)]
    largest = max(logs)
    weights = [math.exp(value - largest) for value in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
