"""What is wrong with a configuration although each number alone is fine."""

from typing import Any

from django.core.checks import CheckMessage, Warning, register

from jobs import classes, registry
from jobs.cores import usable_cores
from jobs.registry import JobType, WrongJobType


def refuse_impossible_types() -> None:
    """Raises WrongJobType for a type whose declared class or timeout cannot be."""
    for job_type in registry.all_types():
        if isinstance(job_type.cost_class, str):
            _refuse_impossible(job_type, job_type.cost_class)


def _refuse_impossible(job_type: JobType, cost_class: str) -> None:
    known = classes.declared()
    if cost_class not in known:
        raise WrongJobType(
            f"Job type {job_type.name!r} names cost class {cost_class!r}; declared are {', '.join(known)}."
        )
    ceiling = known[cost_class].ceiling_seconds
    if job_type.timeout_seconds is not None and job_type.timeout_seconds > ceiling:
        raise WrongJobType(
            f"Job type {job_type.name!r} has a timeout of {job_type.timeout_seconds:g} s, above the ceiling of class"
            f" {cost_class!r}, {ceiling:g} s."
        )


@register
def processes_fit_the_cores(**kwargs: Any) -> list[CheckMessage]:
    cores = usable_cores()
    return [
        Warning(
            f"Class {c.name!r} has {c.processes} processes on {cores} usable cores.",
            hint=f"Work that computes will not run faster for it; {classes.variable(c.name, 'processes')} sets the number.",
            id="jobs.W001",
        )
        for c in classes.declared().values()
        if c.processes > cores
    ]
