"""`Prefer: wait=N` (RFC 7240): a caller that would rather wait for a job's end than ask again (P31, P38).

A response that bears a `hold` is kept back by the server, which asks once more when the hold is over; see project/serving.py.
The request that comes again finds its hold in WSGI's environ.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.db import close_old_connections
from django.http import HttpResponseBase
from rest_framework.request import Request

from jobs import lifecycle, notify, telemetry
from jobs.api.errors import Problem
from jobs.models import Job
from jobs.notify import Waiter
from jobs.states import State

log = structlog.get_logger(__name__)

LONGEST_SECONDS = 60
WAITED = "weighbridge.waited"  # its key in request.META


@dataclass(frozen=True)
class JobHold:
    """One caller's wait for one job. `headers` are those of the first answer that belong to the last one too."""

    waiter: Waiter
    seconds: int
    cancel_if_left: bool
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> "Future[None]":
        return self.waiter.ended

    def release(self) -> None:
        notify.WAITERS.leave(self.waiter)

    def caller_left(self) -> None:
        """Its queued job is withdrawn, for nobody knows its id; a running one goes on for nobody."""
        if not self.cancel_if_left:
            return
        close_old_connections()
        job_id = self.waiter.job_id
        try:
            if lifecycle.withdraw(job_id) is None and Job.objects.filter(pk=job_id, state=State.RUNNING).exists():
                telemetry.ORPHANED.inc()
                log.info("job_orphaned", job_id=str(job_id))
        finally:
            close_old_connections()


def asked_seconds(headers: Mapping[str, str]) -> int:
    """How long the caller would wait; 0 for not at all. What cannot be read is no preference (RFC 7240)."""
    for preference in headers.get("Prefer", "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            value = value.strip().strip('"')
            return min(int(value), LONGEST_SECONDS) if value.isascii() and value.isdigit() and len(value) < 10 else 0
    return 0


def refuse_deadlock(request: Request, *cost_classes: str) -> None:
    """A job that waits for another of its class may hold the very process that the other one needs. Raises Problem (422)."""
    within = _id(request.headers.get("X-Weighbridge-Job", ""))
    if within is None or not asked_seconds(request.headers):
        return
    running = Job.objects.filter(pk=within, client=request.user.pk, state=State.RUNNING, cost_class__in=cost_classes)
    if (its_class := running.values_list("cost_class", flat=True).first()) is not None:
        raise Problem.would_deadlock(its_class)


def _id(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None


def hold(
    request: Request,
    job: Job,
    answer: HttpResponseBase,
    *,
    cancel_if_left: bool = False,
    deadlock_ruled_out: bool = False,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Let the caller wait, if it would, and the job has not ended: `answer` is then what is said if nothing better comes.

    Past the caps of waiters it is said at once. Raises Problem as refuse_deadlock, which who has just submitted asked before anything was stored.
    """
    seconds = asked_seconds(request.headers)
    if not seconds or State(job.state).terminal:
        return
    if not deadlock_ruled_out:
        refuse_deadlock(request, job.cost_class)
    waiter = notify.WAITERS.join(job.pk, job.client_id)
    if waiter is None:
        return
    if not notify.mark(job.pk, seconds):  # it has ended meanwhile: to be said at once, the second time
        waiter.ended.set_result(None)
    answer.hold = JobHold(waiter, seconds, cancel_if_left, headers or {})  # type: ignore[attr-defined]


def waited(request: Request) -> JobHold | None:
    """The hold of a request that is asked once more."""
    hold = request.META.get(WAITED)
    return hold if isinstance(hold, JobHold) else None


def applied(seconds: int) -> dict[str, str]:
    """The headers of an answer that was waited for."""
    return {"Preference-Applied": f"wait={seconds}", "Vary": "Prefer"}
