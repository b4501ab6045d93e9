"""The jobs of this installation as they came, to be tried on other limits."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from jobs.history import MOST_DAYS, MOST_JOBS
from jobs.models import Job as StoredJob
from jobs.ranges import WrongSetting
from workers.simulating.traces import Job, Manner


@dataclass(frozen=True)
class Recorded:
    """In the order in which they came. `supposed`: of the jobs, those that never ran, and count as long as their type's runs in the mean or as they were expected to;
    `left_out`: those of which neither is known."""

    jobs: list[Job]
    supposed: int
    left_out: int


def jobs(manner: Manner) -> Recorded:
    """The newest MOST_JOBS that have ended, over all classes. Jobs that were refused left no row. WrongSetting: there are none.

    One query of a bounded number of rows.
    """
    ended = StoredJob.objects.filter(finished_at__isnull=False).select_related("client").order_by("-finished_at")
    columns = (
        "accepted_at",
        "cost_class",
        "type",
        "run_seconds",
        "expected_seconds",
        "priority",
        "flow",
        "deadline_at",
    )
    rows = sorted(
        ended.only(*columns, "client__name", "client__weight")[:MOST_JOBS], key=lambda row: (row.accepted_at, row.pk)
    )
    ran = defaultdict[str, list[float]](list)
    for row in rows:
        if row.run_seconds:
            ran[row.type].append(row.run_seconds)
    takes = {
        row.pk: row.run_seconds or (fmean(ran[row.type]) if ran[row.type] else row.expected_seconds) for row in rows
    }
    known = [row for row in rows if takes[row.pk]]
    if not known:
        raise WrongSetting("--recorded", "", f"asked of an installation that has run jobs in the last {MOST_DAYS} days")
    begin = known[0].accepted_at
    found = [
        Job(
            (row.accepted_at - begin).total_seconds(),
            row.client.name,
            row.cost_class,
            row.type,
            takes[row.pk] or 0.0,
            row.priority,
            row.flow,
            None if row.deadline_at is None else (row.deadline_at - begin).total_seconds(),
            row.client.weight,
            manner,
        )
        for row in known
    ]
    return Recorded(found, sum(not row.run_seconds for row in known), len(rows) - len(known))
