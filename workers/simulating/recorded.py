"""The jobs of this installation as they came, to be tried on other limits."""

from jobs.history import MOST_DAYS, MOST_JOBS
from jobs.models import Job as StoredJob
from jobs.ranges import WrongSetting
from workers.simulating.traces import Job, Manner


def jobs(manner: Manner) -> list[Job]:
    """The newest MOST_JOBS that ran and have ended, over all classes. Jobs that were refused left no row. WrongSetting: there are none.

    One query of a bounded number of rows.
    """
    rows = (
        StoredJob.objects.filter(finished_at__isnull=False, run_seconds__gt=0)
        .order_by("-finished_at")
        .values_list(
            "accepted_at",
            "client__name",
            "cost_class",
            "type",
            "run_seconds",
            "priority",
            "flow",
            "deadline_at",
            "client__weight",
        )[:MOST_JOBS]
    )
    found = sorted(rows, key=lambda row: row[0])
    if not found:
        raise WrongSetting("--recorded", "", f"asked of an installation that has run jobs in the last {MOST_DAYS} days")
    begin = found[0][0]
    return [
        Job(
            (accepted_at - begin).total_seconds(),
            client,
            cost_class,
            kind,
            run_seconds or 0.0,
            priority,
            flow,
            None if deadline_at is None else (deadline_at - begin).total_seconds(),
            weight,
            manner,
        )
        for accepted_at, client, cost_class, kind, run_seconds, priority, flow, deadline_at, weight in found
    ]
