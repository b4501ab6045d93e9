"""`Prefer: wait=N` for a batch: until it is sealed, which its deadline is a bound of (P31, P38)."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import close_old_connections
from django.http import HttpResponseBase
from rest_framework.request import Request

from jobs import batches, notify, telemetry
from jobs.api.waiting import WAITED, asked_seconds, refuse_deadlock
from jobs.batches import Seen
from jobs.notify import Waiter

log = structlog.get_logger(__name__)

MARGIN_SECONDS = 0.02  # past the deadline, so that by the database's clock it has passed too


@dataclass(frozen=True)
class BatchHold:
    """One caller's wait for one batch: `asked` seconds, but no longer than to its deadline. `headers` and `members` are those of the
    first answer that belong to the last one too."""

    waiter: Waiter
    asked: int
    seconds: float
    cancel_if_left: bool
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)

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
            running = batches.withdraw(self.waiter.job_id)
            if running:
                telemetry.ORPHANED.inc(running)
                log.info("jobs_orphaned", batch_id=str(self.waiter.job_id), jobs=running)
        finally:
            close_old_connections()


def hold(
    request: Request,
    seen: Seen,
    answer: HttpResponseBase,
    *,
    cancel_if_left: bool = False,
    deadlock_ruled_out: bool = False,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> None:
    """Let the caller wait, if it would, and the batch is not sealed: `answer` is then what is said if nothing better comes.

    Past the caps of waiters it is said at once. Raises Problem as for a job, if one that has not ended is of the class of the one that would wait.
    """
    asked = asked_seconds(request.headers)
    if not asked or seen.sealed:
        return
    if not deadlock_ruled_out:
        refuse_deadlock(request, *{item.cost_class for item in seen.items if item.verdict == "pending"})
    waiter = notify.WAITERS.join(seen.batch.pk, seen.batch.client_id)
    if waiter is None:
        return
    if not notify.mark_batch(seen.batch.pk, asked):  # it was sealed meanwhile: to be said at once, the second time
        waiter.ended.set_result(None)
    left = asked if seen.remaining is None else min(asked, seen.remaining.total_seconds() + MARGIN_SECONDS)
    held = BatchHold(waiter, asked, max(0.0, left), cancel_if_left, headers or {}, members or {})
    answer.hold = held  # type: ignore[attr-defined]


def waited(request: Request) -> BatchHold | None:
    """The hold of a request that is asked once more."""
    hold = request.META.get(WAITED)
    return hold if isinstance(hold, BatchHold) else None
