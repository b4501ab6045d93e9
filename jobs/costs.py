"""What a job is expected to cost, in seconds of work: said by its type, else measured on this installation, else not known (P5).

`declared()` is what the type says. `learn()` is a sweep: it takes the run times of jobs that have ended into one row per type and class, where
the admission itself looks (cost_v1), so that a job that is let in costs no round trip more.
"""

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models.functions import Now
from pydantic import BaseModel

from jobs import classes, registry
from jobs.classes import CostClass
from jobs.expected_cost import expected_cost
from jobs.kept import Kept
from jobs.models import Job, RunTimes
from jobs.registry import AuthorsFault, JobType, shown
from jobs.states import State

RUNS_KEPT = 100  # the newest; what was so before a deployment should not count for long
LEARNT_AT_ONCE = 5_000  # ended jobs that one run of the sweep looks at
LATE_COMMIT_SECONDS = 1.0  # a settle that wrote its instant may not be visible yet
LOOKS_BACK_SECONDS = 3_600.0  # the first time


class WrongCost(AuthorsFault):
    """A type's cost function returned what is no cost."""

    code = "wrong_cost"

    def __init__(self, job_type: str, cost: object) -> None:
        super().__init__(job_type, f"says that its job costs {shown(cost)}, but a cost is a number of seconds above 0.")


class CostTooLarge(ValueError):
    """The work that the type says its job is does not fit its time-out. Both in seconds."""

    def __init__(self, cost: float, timeout: float) -> None:
        super().__init__(
            f"Its work is {cost:.15g} s by its type's own measure, and it may run for {timeout:.15g} s only."
        )
        self.cost, self.timeout = cost, timeout


def declared(job_type: JobType, params: BaseModel, timeout_seconds: float) -> float | None:
    """Of one job with these validated params; None if its type says nothing. Raises CostTooLarge, and WrongCost."""
    cost = _said(job_type, params)
    if cost is not None and cost > timeout_seconds:
        raise CostTooLarge(cost, timeout_seconds)
    return cost


def _said(job_type: JobType, params: BaseModel) -> float | None:
    cost: object = job_type.cost(params) if callable(job_type.cost) else job_type.cost
    if cost is None:
        return None
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 < cost < math.inf:
        raise WrongCost(job_type.name, cost)
    return float(cost)


def _ask(cost_class: str) -> float | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT counts FROM cost_v1(%s, '', NULL) WHERE mean_known", [cost_class])
        row = cursor.fetchone()
    return row and float(row[0])


# What a job of the class takes in the mean; None if that was never measured. For those who look: an admission asks the database itself.
mean_seconds: Callable[[str], float | None] = Kept(_ask)


def unknown_in(cost_class: CostClass) -> list[str]:
    """Job types of the class, in the order of their names, of which neither their author nor enough runs here say how long they take."""
    measured = RunTimes.objects.filter(cost_class=cost_class.name, expected_seconds__isnull=False)
    known = {*measured.values_list("type", flat=True)}
    return sorted(
        each.name
        for each in registry.all_types()
        if each.cost is None and each.cost_class == cost_class.name and each.name not in known
    )


def learn() -> int:
    """Take in what has ended since the last time; the number of jobs looked at. Safe side by side: the later one's is kept."""
    return sum(_learn_class(name) for name in classes.declared())


def _learn_class(cost_class: str) -> int:
    ended = list(_ended_since(cost_class, _seen_until(cost_class)))
    for job_type, runs in groupby(sorted(ended), key=itemgetter(0)):
        _take_in(cost_class, job_type, [run for *_, run in runs], max(at for _, at, _ in ended))
    return len(ended)


def _seen_until(cost_class: str) -> datetime | Any:
    latest = RunTimes.objects.filter(cost_class=cost_class).order_by("-seen_until").values_list("seen_until", flat=True)
    return latest.first() or Now() - timedelta(seconds=LOOKS_BACK_SECONDS)


def _ended_since(cost_class: str, seen_until: Any) -> Iterator[tuple[str, Any, Any]]:
    """Type, end and seconds of work of those that ran; a cancelled one does not tell what its type takes."""
    rows = Job.objects.filter(
        cost_class=cost_class,
        finished_at__gt=seen_until,
        finished_at__lt=Now() - timedelta(seconds=LATE_COMMIT_SECONDS),
        state__in=(State.SUCCEEDED, State.FAILED),
        run_seconds__isnull=False,
    ).order_by("finished_at")
    yield from rows.values_list("type", "finished_at", "run_seconds")[:LEARNT_AT_ONCE]


def _take_in(cost_class: str, job_type: str, runs: list[float], until: datetime) -> None:
    row, _ = RunTimes.objects.get_or_create(
        cost_class=cost_class, type=job_type, defaults={"seen_until": until, "newest": []}
    )
    newest = [*row.newest, *runs][-RUNS_KEPT:]
    RunTimes.objects.filter(cost_class=cost_class, type=job_type).update(
        newest=newest, runs=row.runs + len(runs), expected_seconds=expected_cost(newest), seen_until=until
    )
