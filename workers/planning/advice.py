"""A plan for one class: its size, whether it meets what was asked for, and why it is so. No Django."""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.capacity import SURE_ENOUGH, start_seconds
from workers.planning import reasons
from workers.planning.question import Question
from workers.planning.queueing import Prediction
from workers.planning.reasons import seconds, share
from workers.planning.simulation import play
from workers.planning.sizes import MOST_SLOTS, Size, room_for, sized, smallest


@dataclass(frozen=True)
class Plan:
    """`blocked` says why the targets cannot be met, in sentences; it is empty if they are. `played` is the same size with the recorded run times."""

    question: Question
    size: Size
    blocked: tuple[str, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    played: Prediction | None

    @property
    def meets(self) -> bool:
        return not self.blocked


class NothingToGoBy(ValueError):
    """Neither a size nor a wait target was given; the text is a sentence."""


def advise(question: Question) -> Plan:
    """Raises NothingToGoBy."""
    size, blocked = _size(question)
    played = None
    if question.run_times:
        played = play(question.load.rate, question.run_times, size.slots, size.max_waiting)
    return Plan(
        question,
        size,
        (*blocked, *_missed(question, size)),
        tuple(reasons.reasons(question, size)),
        tuple(reasons.warnings(question, size, played)),
        played,
    )


def _size(question: Question) -> tuple[Size, list[str]]:
    """And why it is not the one that the targets need, if it is not."""
    load, targets = question.load, question.targets
    most = MOST_SLOTS if question.memory is None else question.memory.processes
    if question.slots is not None:
        blocked = [_no_memory(question, question.slots)] if question.slots > most else []
        return sized(load, question.slots, _room(question, question.slots)), blocked
    if targets is None:
        raise NothingToGoBy(
            "Say --wait-target, from which a size can be found, or --slots and --max-waiting to have a size judged."
        )
    needed = smallest(load, targets, question.max_waiting)
    if needed is not None and needed.slots <= most:
        return needed, []
    within = max(1, min(most, MOST_SLOTS))
    best = sized(load, within, _room(question, within))
    if needed is None and most >= MOST_SLOTS:
        return best, [_too_many()]
    return best, [_no_memory(question, None if needed is None else needed.slots)]


def _room(question: Question, slots: int) -> int:
    if question.max_waiting is not None:
        return question.max_waiting
    if question.targets is None:
        raise NothingToGoBy("Say --max-waiting, or --wait-target, from which it can be found.")
    return room_for(question.load, question.targets, slots)


def _too_many() -> str:
    return f"No class with up to {MOST_SLOTS} processes meets the targets: fewer jobs, shorter runs or a longer wait would."


def _no_memory(question: Question, slots: int | None) -> str:
    memory = question.memory
    assert memory is not None
    needed = f"{slots} processes are" if slots is not None else f"more than {MOST_SLOTS} processes would be"
    return (
        f"{needed} needed, but memory holds {memory.processes}: {memory.limit_mib:g} MiB less {memory.headroom:.0%} headroom and"
        f" {memory.parent_mib:g} MiB for the keeper and Celery's parent, at {memory.child_mib:g} MiB for each process."
        " A larger queue would not help: more memory, less of it for each job, or a second machine would."
    )


def _missed(question: Question, size: Size) -> Iterator[str]:
    """Which targets the size does not keep."""
    refused = size.prediction.refusal_share
    most = question.targets.refusal_share if question.targets else question.refusal_target
    if most is not None and refused > most:
        yield f"{share(refused)} of the callers would be refused, and {share(most)} may be."
    if question.targets and size.max_waiting > room_for(question.load, question.targets, size.slots):
        last = start_seconds(size.max_waiting, size.slots, question.load.service_seconds)
        yield (
            f"The last of {size.max_waiting} waiting jobs would start within {seconds(last)} (with probability {SURE_ENOUGH}),"
            f" and within {seconds(question.targets.wait_seconds)} it should."
        )
