"""Why a size is as it is, and what to beware of, in sentences. No Django."""

import math
from collections.abc import Iterator
from statistics import fmean, pstdev

from jobs.capacity import SURE_ENOUGH, start_seconds
from workers.planning.question import Question
from workers.planning.queueing import Prediction
from workers.planning.sizes import Load, Size, Targets, room_for, sized
from workers.sizing import processes_for_cores

COMPUTES = 0.5  # of its run time on a processor, from where a job counts as one that computes
VARIES = 1.2  # standard deviation of run times ÷ mean, from where the formula's 1 is too little
STEADY = 0.1  # a p95 that was played may be so far above the target, by chance


def reasons(question: Question, size: Size) -> Iterator[str]:
    load, targets = question.load, question.targets
    yield (
        f"{load.rate:g} jobs a second of {seconds(load.service_seconds)} each keep {load.offered:.4g} processes busy;"
        f" with {size.slots} each is busy {size.prediction.utilisation:.0%} of its time."
    )
    if load.offered >= size.slots:
        lasting = 1 - size.slots / load.offered
        yield f"That is more than {size.slots} can do: at least {share(lasting)} is refused, however many may wait."
    if targets and size.max_waiting <= room_for(load, targets, size.slots):
        yield from _why_this_room(question, size, targets)
    met = targets is not None and size.prediction.refusal_share <= targets.refusal_share
    if targets and met and question.slots is None and size.slots > 1 and question.max_waiting is None:
        yield from _why_not_one_less(load, targets, size)
    if question.memory is not None and size.slots <= question.memory.processes:
        yield (
            f"Memory holds {question.memory.processes} processes of {question.memory.child_mib:g} MiB in"
            f" {question.memory.limit_mib:g} MiB."
        )


def _why_this_room(question: Question, size: Size, targets: Targets) -> Iterator[str]:
    last = start_seconds(size.max_waiting, size.slots, question.load.service_seconds)
    yield (
        f"Of {size.max_waiting} jobs that wait the last starts within {seconds(last)} with probability {SURE_ENOUGH};"
        f" the target is {seconds(targets.wait_seconds)}."
    )


def _why_not_one_less(load: Load, targets: Targets, size: Size) -> Iterator[str]:
    fewer = size.slots - 1
    other = sized(load, fewer, room_for(load, targets, fewer))
    if other.prediction.refusal_share > targets.refusal_share:
        yield (
            f"With {fewer} processes and {other.max_waiting} waiting {share(other.prediction.refusal_share)} would be refused;"
            f" {share(targets.refusal_share)} may be."
        )


def warnings(question: Question, size: Size, played: Prediction | None) -> Iterator[str]:
    yield from _about_cores(question, size)
    yield from _about_run_times(question, played)


def _about_cores(question: Question, size: Size) -> Iterator[str]:
    spare = processes_for_cores(question.cores)
    if size.slots <= spare:
        return
    said = f"{size.slots} processes are more than the {spare} for which {question.cores} usable cores have room beside the web."
    if question.computing is None:
        yield f"{said} For jobs that wait for something else that is fine; jobs that compute would run slower than {seconds(question.load.service_seconds)}, and these figures would not hold."
    elif question.computing >= COMPUTES:
        yield f"{said} These jobs compute ({question.computing:.0%} of their time on a processor): they would run slower than {seconds(question.load.service_seconds)}, and these figures would not hold without more cores or machines."
    else:
        yield f"{said} These jobs wait more than they compute ({question.computing:.0%} of their time on a processor), so it may do."


def _about_run_times(question: Question, played: Prediction | None) -> Iterator[str]:
    if played is None:
        return
    mean = fmean(question.run_times)
    variation = pstdev(question.run_times) / mean
    if variation > VARIES:
        yield (
            f"Run times vary more than the formula takes them to (standard deviation {variation:.2g} times the mean): played with"
            f" them, p95 is {seconds(played.p95_wait_seconds)} and {share(played.refusal_share)} is refused."
        )
    if question.wait_target is not None and played.p95_wait_seconds > question.wait_target * (1 + STEADY):
        yield f"Played with the recorded run times, p95 is {seconds(played.p95_wait_seconds)} and misses the target."


def share(part: float) -> str:
    percent = 100 * part
    if percent == 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(percent)))
    return f"{percent:.{min(digits, 9)}f} %" if percent >= 1e-8 else "next to nothing"


def seconds(duration: float) -> str:
    return f"{duration:.3g} s"
