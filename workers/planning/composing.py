"""From what was given on the command line, and what the classes' own jobs say, to plans."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from jobs import classes
from jobs.cores import usable_cores
from workers.planning.advice import NothingToGoBy, Plan, advise
from workers.planning.question import Question
from workers.planning.reasons import seconds, share
from workers.planning.recorded import Recorded, recorded
from workers.planning.sizes import Load, sized
from workers.sizing import HEADROOM, PARENT_MIB, Memory, processes_for_cores, usable_memory_mib


class Contradiction(ValueError):
    """What was given does not go together, or is too little; the text is a sentence."""


@dataclass(frozen=True)
class Composed:
    """A plan, of a class or of given numbers alone, and where its numbers come from. plan is None where there was too little."""

    title: str
    cost_class: str | None
    plan: Plan | None
    sources: tuple[str, ...]


def composed(cost_class: str | None, numbers: dict[str, Any]) -> list[Composed]:
    """One plan, or one for each class if neither a class nor a load was given. Raises Contradiction."""
    _refuse_contradictions(cost_class, numbers)
    if cost_class is not None:
        return [_of_class(cost_class, numbers)]
    if "rate" in numbers:
        return [Composed("Given numbers", None, _advised(_question(numbers)), ())]
    return [_of_class(name, numbers) for name in classes.declared()]


def _refuse_contradictions(cost_class: str | None, numbers: dict[str, Any]) -> None:
    if cost_class is not None and cost_class not in classes.declared():
        raise Contradiction(f"--cost-class is {cost_class!r}, but must be one of {', '.join(classes.declared())}.")
    if "service_seconds" in numbers and "run_times" in numbers:
        raise Contradiction("--service-seconds and --run-times both say how long jobs run; give one of them.")
    timed = "service_seconds" in numbers or "run_times" in numbers
    if cost_class is None and "rate" in numbers and not timed:
        raise Contradiction(
            "--rate needs --service-seconds or --run-times too, or --cost-class, whose own jobs say how long they run."
        )
    if cost_class is None and timed and "rate" not in numbers:
        raise Contradiction(
            "--service-seconds and --run-times need --rate too, or --cost-class, whose own jobs say how many come."
        )
    if cost_class is None and "rate" not in numbers and {"slots", "max_waiting", "memory_mib"} & numbers.keys():
        raise Contradiction(
            "--slots, --max-waiting and --memory-mib are of one class: say --cost-class, or --rate and --service-seconds."
        )


def _of_class(name: str, numbers: dict[str, Any]) -> Composed:
    cost_class = classes.get(name)
    complete = (
        "rate" in numbers and ("service_seconds" in numbers or "run_times" in numbers) and "memory_mib" in numbers
    )
    found = Recorded(cost_class, None, None, (), None, None, ()) if complete else recorded(cost_class)
    given = {**_numbers_of(found), **numbers}
    given.setdefault("wait_target", cost_class.max_wait_seconds)
    if "service_seconds" in numbers:
        given.pop("run_times", None)
    if "rate" not in given or not {"service_seconds", "run_times"} & given.keys():
        return Composed(f"Class {name}", name, None, found.told)
    plan = _advised(_question(given, found.computing))
    return Composed(f"Class {name}", name, plan, (*found.told, _as_it_is(found, plan.question.load)))


def _numbers_of(found: Recorded) -> dict[str, Any]:
    known = {"rate": found.rate, "run_times": found.run_times, "memory_mib": found.child_mib}
    return {name: value for name, value in known.items() if value}


def _as_it_is(found: Recorded, load: Load) -> str:
    cost_class = found.cost_class
    now = sized(load, cost_class.processes, cost_class.max_waiting).prediction
    return (
        f"As the class is set now, with {cost_class.processes} processes and {cost_class.max_waiting} waiting:"
        f" {share(now.refusal_share)} refused, p95 {seconds(now.p95_wait_seconds)}."
    )


def _question(given: dict[str, Any], computing: float | None = None) -> Question:
    run_times = given.get("run_times", ())
    service_seconds = given["service_seconds"] if not run_times else fmean(run_times)
    memory = None
    if "memory_mib" in given:
        memory = Memory(given.get("machine_memory_mib", usable_memory_mib()), given["memory_mib"])
    return Question(
        Load(given["rate"], service_seconds),
        slots=given.get("slots"),
        max_waiting=given.get("max_waiting"),
        wait_target=given.get("wait_target"),
        refusal_target=given.get("refusal_target"),
        memory=memory,
        cores=given.get("cores", usable_cores()),
        computing=computing,
        run_times=run_times,
    )


def _advised(question: Question) -> Plan:
    try:
        return advise(question)
    except NothingToGoBy as error:
        raise Contradiction(str(error)) from None


def together(plans: Sequence[Composed], numbers: dict[str, Any]) -> list[str]:
    """What the classes of one machine are too much for between them, in sentences."""
    made = [one.plan for one in plans if one.plan is not None]
    if len(made) < 2:
        return []
    return [*_cores_together(made, numbers), *_memory_together(made, numbers)]


def _cores_together(plans: Sequence[Plan], numbers: dict[str, Any]) -> list[str]:
    slots = sum(plan.size.slots for plan in plans)
    spare = processes_for_cores(numbers.get("cores", usable_cores()))
    if slots <= spare:
        return []
    return [f"Together the classes have {slots} processes on one machine, which has cores for {spare} beside the web."]


def _memory_together(plans: Sequence[Plan], numbers: dict[str, Any]) -> list[str]:
    needed = sum(
        PARENT_MIB + plan.size.slots * plan.question.memory.child_mib for plan in plans if plan.question.memory
    )
    usable = numbers.get("machine_memory_mib", usable_memory_mib()) * (1 - HEADROOM)
    if needed <= usable:
        return []
    return [
        f"Together the classes need {needed:.0f} MiB on one machine, which has {usable:.0f} MiB beside its headroom."
    ]
