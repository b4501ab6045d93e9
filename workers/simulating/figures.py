"""What became of the jobs of a class, or of a client. No Django."""

from array import array
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts as they come. A job asks once or several times; `asked` are all of them."""

    offered: int = 0
    asked: int = 0
    admitted: int = 0
    gave_up: int = 0
    expired: int = 0
    useful: int = 0
    useful_meanwhile: int = 0  # while jobs came
    busy_seconds: float = 0.0
    returned: int = 0
    returned_admitted: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    waits: "array[float]" = field(default_factory=lambda: array("d"))

    def figures(self, slots: int | None, seconds: float) -> "Figures":
        """slots: of the class; None for a client. seconds: how long jobs came."""
        waits = sorted(self.waits)
        return Figures(
            offered=self.offered,
            asked=self.asked,
            admitted=self.admitted,
            refused_share=_share(self.asked - self.admitted, self.asked),
            refused={reason: self.reasons[reason] for reason in sorted(self.reasons)},
            gave_up_share=_share(self.gave_up, self.offered),
            expired_share=_share(self.expired, self.admitted),
            mean_wait_seconds=sum(waits) / len(waits) if waits else None,
            p50_wait_seconds=_quantile(waits, 0.50),
            p95_wait_seconds=_quantile(waits, 0.95),
            p99_wait_seconds=_quantile(waits, 0.99),
            useful_share=_share(self.useful, self.offered),
            goodput_per_second=self.useful_meanwhile / seconds if seconds else 0.0,
            busy_slots=self.busy_seconds / seconds if seconds else 0.0,
            utilisation=self.busy_seconds / seconds / slots if slots and seconds else None,
            returned=self.returned,
            honest_share=_share(self.returned_admitted, self.returned) if self.returned else None,
        )


@dataclass(frozen=True)
class Figures:
    """Shares are from 0 to 1. Waits are those of jobs that started, from their admission; None if none did.

    refused_share and expired_share: of what was asked, and of what was admitted. gave_up_share and useful_share: of the jobs offered;
    useful ones ended before their deadline. goodput_per_second: useful ones while jobs came. honest_share: of those that came back when they
    were told to, who was then admitted.
    """

    offered: int
    asked: int
    admitted: int
    refused_share: float
    refused: dict[str, int]
    gave_up_share: float
    expired_share: float
    mean_wait_seconds: float | None
    p50_wait_seconds: float | None
    p95_wait_seconds: float | None
    p99_wait_seconds: float | None
    useful_share: float
    goodput_per_second: float
    busy_slots: float
    utilisation: float | None
    returned: int
    honest_share: float | None


@dataclass(frozen=True)
class Report:
    """By name. seconds: of virtual time, while jobs came."""

    seconds: float
    jobs: int
    classes: dict[str, Figures]
    kinds: dict[str, Figures]
    clients: dict[str, Figures]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
