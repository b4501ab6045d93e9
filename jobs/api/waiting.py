"""`Prefer: wait=N` (RFC 7240): a caller that would rather wait for the end of a job, or the seal of a batch, than ask again (P31, P38).

A response that bears a `hold` is kept back by the server, which asks once more when the hold is over; see project/serving.py.
The request that comes again finds its hold in WSGI's environ.
"""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from django.db import close_old_connections
from django.http import HttpResponseBase
from rest_framework.request import Request

from jobs import batches, lifecycle, notify, telemetry
from jobs.api.errors import Problem
from jobs.batches import Seen
from jobs.models import Job
from jobs.notify import Waiter
from jobs.states import State

log = structlog.get_logger(__name__)

LONGEST_SECONDS = 60
_PREFERENCE = re.compile(r'(?:"[^"]*"|[^,"]|")+')  # a comma between quotes parts none
MARGIN_SECONDS = 0.02  # past a batch's deadline, so that by the database's clock it has passed too
WAITED = "weighbridge.waited"  # its key in request.META


@dataclass(frozen=True)
class Subject:
    """What is waited for. `cost_classes`: of the jobs that have not ended. `most_seconds`: after which it is over by itself.

    mark: says so many seconds that somebody waits; False if it is over. withdraw: ends what is queued; how many jobs run on.
    """

    id: UUID
    client_id: int
    over: bool
    cost_classes: frozenset[str]
    mark: Callable[[UUID, float], bool]
    withdraw: Callable[[UUID], int]
    most_seconds: float | None = None


def end_of(job: Job) -> Subject:
    over = State(job.state).terminal
    return Subject(job.pk, job.client_id, over, frozenset({job.cost_class}), notify.mark, _withdraw_job)


def _withdraw_job(job_id: UUID) -> int:
    if lifecycle.withdraw(job_id) is not None:
        return 0
    return Job.objects.filter(pk=job_id, state=State.RUNNING).count()


def seal_of(seen: Seen) -> Subject:
    row, left = seen.batch, seen.remaining
    pending = frozenset(item.cost_class for item in seen.items if item.verdict == "pending")
    most = None if left is None else max(0.0, left.total_seconds() + MARGIN_SECONDS)
    return Subject(row.pk, row.client_id, seen.sealed, pending, notify.mark_batch, batches.withdraw, most)


@dataclass(frozen=True)
class Hold:
    """One caller's wait: `asked` seconds, but no longer than it can be of use. `headers` and `members` are those of the first answer
    that belong to the last one too."""

    waiter: Waiter
    subject: Subject
    asked: int
    cancel_if_left: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        most = self.subject.most_seconds
        return self.asked if most is None else min(self.asked, most)

    @property
    def ended(self) -> "Future[None]":
        return self.waiter.ended

    def release(self) -> None:
        notify.WAITERS.leave(self.waiter)

    def caller_left(self) -> None:
        """Its queued jobs are withdrawn, for nobody knows their ids; running ones go on for nobody."""
        if not self.cancel_if_left:
            return
        close_old_connections()
        try:
            if running := self.subject.withdraw(self.subject.id):
                telemetry.ORPHANED.inc(running)
                log.info("jobs_orphaned", of=str(self.subject.id), jobs=running)
        finally:
            close_old_connections()


def asked_seconds(headers: Mapping[str, str]) -> int:
    """How long the caller would wait; 0 for not at all. What cannot be read is no preference (RFC 7240)."""
    for preference in _PREFERENCE.findall(headers.get("Prefer", "")):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            value = value.strip().strip('"')
            if not (value.isascii() and value.isdigit()):
                return 0
            return min(int(value), LONGEST_SECONDS) if len(value) < 10 else LONGEST_SECONDS
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
    subject: Subject,
    answer: HttpResponseBase,
    *,
    cancel_if_left: bool = False,
    deadlock_ruled_out: bool = False,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> None:
    """Let the caller wait, if it would, and it is not over: `answer` is then what is said if nothing better comes.

    Past the caps of waiters it is said at once. Raises Problem as refuse_deadlock, which who has just submitted asked before anything was stored.
    """
    asked = asked_seconds(request.headers)
    if not asked or subject.over:
        return
    if not deadlock_ruled_out:
        refuse_deadlock(request, *subject.cost_classes)
    waiter = notify.WAITERS.join(subject.id, subject.client_id)
    if waiter is None:
        return
    try:
        if not subject.mark(subject.id, asked):  # it is over meanwhile: to be said at once, the second time
            waiter.end()
    except BaseException:
        notify.WAITERS.leave(waiter)  # nobody else will
        raise
    answer.hold = Hold(waiter, subject, asked, cancel_if_left, headers or {}, members or {})  # type: ignore[attr-defined]


def waited(request: Request) -> Hold | None:
    """The hold of a request that is asked once more."""
    hold = request.META.get(WAITED)
    return hold if isinstance(hold, Hold) else None


def applied(seconds: int) -> dict[str, str]:
    """The headers of an answer that was waited for."""
    return {"Preference-Applied": f"wait={seconds}", "Vary": "Prefer"}
