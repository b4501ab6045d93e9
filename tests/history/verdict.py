"""What the checker found: anomalies by kind, each a sentence, and the counts that say how much it saw."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """One per promise. The first four are those of a total queue."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    UNEXPECTED = "unexpected"
    REFUSED_RAN = "refused_ran"
    UNACCOUNTED = "unaccounted"
    KEY_TWICE = "key_twice"
    OVER_ADMITTED = "over_admitted"
    TOO_MANY_UNKNOWN = "too_many_unknown"
    SHARE_UNFOUNDED = "share_unfounded"

    UNRECORDED_START = "unrecorded_start"
    MISCOUNTED_STARTS = "miscounted_starts"
    RAN_TWICE = "ran_twice"
    RAN_AGAIN = "ran_again"
    SUCCESS_WITHOUT_BODY = "success_without_body"
    TWO_LEASES = "two_leases"
    OVERLAP = "overlap"
    TOO_MANY_BODIES = "too_many_bodies"
    LOST_WITHOUT_CAUSE = "lost_without_cause"
    RELEASED_WITHOUT_CAUSE = "released_without_cause"
    START_AFTER_DEADLINE = "start_after_deadline"
    START_AFTER_EXPIRY = "start_after_expiry"
    START_AFTER_CANCEL = "start_after_cancel"
    START_AFTER_END = "start_after_end"

    CHANGED = "changed"
    CANCEL_BROKEN = "cancel_broken"
    UNASKED_CANCEL = "unasked_cancel"
    NOT_DRAINED = "not_drained"


@dataclass(frozen=True)
class Anomaly:
    kind: Kind
    sentence: str


@dataclass(frozen=True)
class Counts:
    """Submits: invoked = accepted + refused + unknown + unsent.

    recovered: unknown submits whose job is there. ended: jobs of this history by state, `failed` by its code too.
    killed_bodies: began and never ended. unstarted: attempts that a fault ended before their body began.
    excused_overlaps: bodies of one job side by side because one was paused. foreign: jobs that this history never saw.
    """

    invoked: int = 0
    accepted: int = 0
    refused: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown: int = 0
    unsent: int = 0
    recovered: int = 0
    slowest_answer_seconds: float = 0.0
    ended: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    attempts: int = 0
    bodies: int = 0
    killed_bodies: int = 0
    unstarted: int = 0
    excused_overlaps: int = 0
    cancels: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    observations: int = 0
    hits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    foreign: int = 0


@dataclass(frozen=True)
class Verdict:
    anomalies: tuple[Anomaly, ...]
    counts: Counts

    @property
    def kinds(self) -> frozenset[Kind]:
        return frozenset(anomaly.kind for anomaly in self.anomalies)

    def of(self, kind: Kind) -> list[str]:
        """The sentences of one kind."""
        return [anomaly.sentence for anomaly in self.anomalies if anomaly.kind is kind]

    def must_hold(self) -> None:
        """Raises AssertionError with every anomaly and the counts."""
        if self.anomalies:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        by_kind = Counter(anomaly.kind.value for anomaly in self.anomalies)
        found = ", ".join(f"{kind} {count}" for kind, count in by_kind.items()) or "no anomaly"
        sentences = [f"  {anomaly.kind.value}: {anomaly.sentence}" for anomaly in self.anomalies[:SENTENCES_SHOWN]]
        left_out = len(self.anomalies) - len(sentences)
        return "\n".join([found, *sentences, *([f"  … and {left_out} more"] if left_out else []), *self._figures()])

    def _figures(self) -> list[str]:
        return [f"  {name} = {_shown(value)}" for name, value in vars(self.counts).items()]


SENTENCES_SHOWN = 50  # a broken run breaks everything; nobody reads more


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count}" for name, count in sorted(value.items())) or "none"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
