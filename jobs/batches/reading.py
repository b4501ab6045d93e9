"""What became of a batch and of each of its items, as it stands."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from django.db.models import (
    Case,
    DurationField,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    JSONField,
    QuerySet,
    Sum,
    TextField,
    When,
    Window,
)
from django.db.models.functions import Cast, Coalesce, Now

from jobs import lifecycle
from jobs.batches import sealing
from jobs.models import Batch, BatchItem, Job
from jobs.row_locks import RowHeld
from jobs.states import State

Verdict = Literal["pending", "ok", "failed", "cancelled", "deadline_exceeded", "refused"]
VERDICTS: tuple[Verdict, ...] = ("ok", "failed", "cancelled", "deadline_exceeded", "refused", "pending")

# As JSON, results and details of errors of all items together: as much as a batch may be sent in. Each may be a mebibyte, and ten times that in memory.
MOST_DATA_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ItemOutcome:
    """Of one item, by its caller's name. `data` is the job's result, unless it is no longer kept. `omitted`: with the others its data, or its
    error's details, would be too much."""

    name: str
    verdict: Verdict
    cost_class: str
    job_id: UUID | None = None
    data: Any = None
    data_expired: bool = False
    error: dict[str, Any] | None = None  # a failed job's
    refusal: str = ""
    omitted: bool = False


@dataclass(frozen=True)
class Seen:
    """A batch at one instant. `remaining`: to its deadline, by the database's clock; None if it has none."""

    batch: Batch
    items: tuple[ItemOutcome, ...]
    remaining: timedelta | None
    stale: bool = False  # something was due that was not done yet

    @property
    def sealed(self) -> bool:
        return self.batch.sealed_at is not None

    @cached_property
    def counts(self) -> dict[str, int]:
        verdicts = [item.verdict for item in self.items]
        return {"total": len(verdicts), **{verdict: verdicts.count(verdict) for verdict in VERDICTS}}

    @property
    def partial(self) -> bool:
        """Whether any item has no data, as of a fan-out."""
        return self.counts["ok"] < self.counts["total"]


def as_it_is(client_id: int, batch_id: UUID) -> Seen:
    """Sealed first if it is due, and its jobs expired that are past their start_by, so that every answer is a stored truth (P2).

    One query for a batch to which nothing has happened, however many items it has. Raises Batch.DoesNotExist also for another client's.
    """
    seen = _look(client_id, batch_id)
    if not seen.stale:
        return seen
    lifecycle.expire(client_id=client_id)
    try:
        sealing.seal(batch_id)
    except RowHeld:
        pass  # what is known so far is true as well
    return _look(client_id, batch_id)


_OF_JOBS = ("state", "finished_at", "start_by", "result_expired")
_OF_ERRORS = ("error_code", "error_message", "error_retryable", "stopped_by")
_COLUMNS = [
    *("name", "cost_class", "refusal", "unfinished"),
    *(f"job__{name}" for name in (*_OF_JOBS, *_OF_ERRORS)),
    *(
        f"batch__{name}"
        for name in ("client", "atomic", "accepted_at", "deadline_at", "cancel_requested_at", "sealed_at")
    ),
]


def _look(client_id: int, batch_id: UUID) -> Seen:
    """One statement, so that a batch is never seen as open with items that its seal has marked."""
    left = ExpressionWrapper(F("batch__deadline_at") - Now(), output_field=DurationField())
    theirs = BatchItem.objects.filter(batch=batch_id, batch__client=client_id).select_related("batch", "job")
    items = list(_with_data(theirs.only(*_COLUMNS)).annotate(left=left, now=Now()).order_by("position"))
    if not items:
        raise Batch.DoesNotExist
    first: Any = items[0]
    batch = first.batch
    ended = all(item.job is None or item.job.finished_at is not None for item in items)
    over = first.left is not None and first.left <= timedelta(0)
    return Seen(
        batch,
        tuple(_outcome(item, batch) for item in items),
        first.left,
        stale=batch.sealed_at is None and (ended or over or any(_is_past(item.job, first.now) for item in items)),
    )


def _with_data(items: QuerySet[BatchItem]) -> QuerySet[BatchItem]:
    """`data`, the job's result or its error's details, of the smallest first for as long as all of it is not too much: so one that is large takes
    the place of no other.

    What is omitted never leaves the database. `data_bytes`: of the item's own, and of those before it.
    """
    own = Coalesce("job__result", "job__error_details")
    own_bytes = Coalesce(Func(Cast(own, TextField()), function="octet_length"), 0, output_field=IntegerField())
    measured = items.annotate(own_bytes=Case(When(unfinished=False, then=own_bytes), default=0))
    summed = measured.annotate(data_bytes=Window(Sum("own_bytes"), order_by=["own_bytes", "position"]))
    return summed.annotate(data=Case(When(data_bytes__lte=MOST_DATA_BYTES, then=own), output_field=JSONField()))


def _is_past(job: Job | None, now: Any) -> bool:
    return job is not None and job.state == State.QUEUED and job.start_by is not None and job.start_by <= now


def _outcome(item: Any, batch: Batch) -> ItemOutcome:
    job = item.job
    if job is None:
        return ItemOutcome(item.name, "refused", item.cost_class, refusal=item.refusal)
    verdict = _verdict(item, job, batch)
    omitted = item.data_bytes > MOST_DATA_BYTES
    if verdict == "ok":
        return ItemOutcome(item.name, verdict, item.cost_class, job.pk, item.data, job.result_expired, omitted=omitted)
    if verdict == "failed":
        job.error_details = item.data
        return ItemOutcome(item.name, verdict, item.cost_class, job.pk, error=job.error, omitted=omitted)
    return ItemOutcome(item.name, verdict, item.cost_class, job.pk)


def _verdict(item: BatchItem, job: Job, batch: Batch) -> Verdict:
    if item.unfinished:
        return "deadline_exceeded" if batch.cancel_requested_at is None else "cancelled"
    if job.finished_at is None:
        return "pending"
    if batch.deadline_at is not None and job.finished_at > batch.deadline_at:
        return "deadline_exceeded"  # as the seal will say, which is due
    if job.state == State.SUCCEEDED:
        return "ok"
    return "cancelled" if job.state == State.CANCELLED else "failed"
