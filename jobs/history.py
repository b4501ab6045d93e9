"""What the jobs of a class were like that ended last: how many came, how long they ran, what memory they took."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models.functions import Now

from jobs.models import Attempt, Job

MOST_JOBS = 5_000  # the newest; more would say nothing else, and cost a second
MOST_DAYS = 7  # as long as rows are kept
BUSIEST_SECONDS = 300.0  # an hour hides a rush, and a minute is too little to size by


@dataclass(frozen=True)
class History:
    """Of up to MOST_JOBS jobs that ended in the last days, in no order. accepted_at is sorted; sizes in bytes.

    run_seconds are a job's time inside attempts, all of them: what it kept a process for.
    """

    accepted_at: Sequence[datetime]
    run_seconds: Sequence[float]
    cpu_seconds: float
    peak_rss_bytes: Sequence[int]

    @property
    def busiest_rate(self) -> float | None:
        """Jobs a second in the busiest five minutes; None if there are none. What was refused left no row, and is not in it."""
        if not self.accepted_at:
            return None
        span = timedelta(seconds=BUSIEST_SECONDS)
        most = max(bisect_left(self.accepted_at, begin + span) - place for place, begin in enumerate(self.accepted_at))
        return most / BUSIEST_SECONDS

    @property
    def computing(self) -> float | None:
        """How much of their time jobs were on a processor, 0 to 1; a job of several threads counts as 1."""
        total = sum(self.run_seconds)
        return min(1.0, self.cpu_seconds / total) if total > 0 else None

    def peak_bytes(self, share: float = 0.95) -> int | None:
        """What this share of the attempts stayed within."""
        if not self.peak_rss_bytes:
            return None
        ordered = sorted(self.peak_rss_bytes)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_class(cost_class: str) -> History:
    """Two queries, both of a bounded number of rows found by an index (job_drain, attempt_number_once)."""
    ended = Job.objects.filter(
        cost_class=cost_class, finished_at__gt=Now() - timedelta(days=MOST_DAYS), run_seconds__gt=0
    ).order_by("-finished_at")[:MOST_JOBS]
    rows = list(ended.values_list("pk", "accepted_at", "run_seconds", "cpu_seconds"))
    peaks = Attempt.objects.filter(job__in=[row[0] for row in rows]).values_list("peak_rss_bytes", flat=True)
    return History(
        accepted_at=sorted(row[1] for row in rows),
        run_seconds=[row[2] or 0.0 for row in rows],
        cpu_seconds=sum(row[3] or 0.0 for row in rows),
        peak_rss_bytes=[peak for peak in peaks if peak is not None],
    )
