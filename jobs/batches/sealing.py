"""Close a batch, once: when all of its jobs have ended, at its deadline by the database's clock, or at its cancel, whichever is first.

Three look whether one is due: whoever ends a job of it, whoever reads it, and a sweep. All may come at once, and any of them may be missing: a seal is one
transaction that begins with the batch's row, so the second finds it sealed. It cancels the jobs that have not ended, and by that waits for
each settle that is under way; so what is unfinished is decided by the rows, and no result comes after (P9, P20, P37).
"""

from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Least, Now
from django.dispatch import Signal

from jobs import lifecycle, telemetry
from jobs.models import Batch, BatchItem, IdempotencyKey, Job
from jobs.row_locks import PATIENCE_SECONDS, RowHeld, not_waiting
from jobs.states import State

log = structlog.get_logger(__name__)

BRIEFLY_SECONDS = 0.1  # of a keeper, which has leases to look after, and of a sweep

# A batch was sealed: batch_id, and awaited, whether somebody waits for it (P31). Sent after the commit, by whoever sealed it, in its thread.
sealed = Signal()

_LIVE = BatchItem.objects.filter(batch=OuterRef("pk"), job__isnull=False, job__finished_at=None)


def seal(batch_id: UUID, patience_seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether this call has sealed it; it does if the batch is due. Raises RowHeld if somebody holds its row or a job's for so long."""
    return _due().filter(pk=batch_id).exists() and _seal(batch_id, False, patience_seconds)


def cancel(batch_id: UUID) -> bool:
    """Seal the batch now, as cancelled, unless it is sealed or due: whether this call has. Raises RowHeld."""
    return _seal(batch_id, True, PATIENCE_SECONDS)


def withdraw(batch_id: UUID) -> int:
    """End the batch's queued jobs, whose caller has gone (P38); how many go on running for nobody: of none that has a key it comes back by.

    Under the batch's row, as a seal: two that change the same jobs in different orders would wait for each other.
    """
    with transaction.atomic():
        if not _open_and_ours(batch_id):
            return 0
        lifecycle.withdraw_batch(batch_id)
        keyed = Exists(IdempotencyKey.objects.filter(job=OuterRef("pk")))
        return Job.objects.filter(~keyed, batch=batch_id, state=State.RUNNING).count()


def seal_due() -> int:
    """Seal every batch that is due; the number of them. One of which somebody holds a row is left for the next time."""
    return sum(_seal_unless_held(batch_id) for batch_id in list(_due().values_list("pk", flat=True)))


def _due() -> "QuerySet[Batch]":
    """Once a batch is due it stays so: jobs that have ended do not come back, and time goes on."""
    return Batch.objects.filter(Q(deadline_at__lte=Now()) | ~Exists(_LIVE), sealed_at=None)


def _seal_unless_held(batch_id: UUID) -> bool:
    try:
        return seal(batch_id, BRIEFLY_SECONDS)
    except RowHeld:
        return False


def _seal(batch_id: UUID, cancel: bool, patience_seconds: float) -> bool:
    with not_waiting(patience_seconds):
        if not _open_and_ours(batch_id):
            return False
        due = (
            _due().filter(pk=batch_id).exists()
        )  # a later statement: it sees what was committed until the row was ours
        if not due and not cancel:
            return False
        unfinished = _note_what_is_unfinished(batch_id, lifecycle.cancel_batch(batch_id))
        # The last jobs may have ended while their cancel waited for them: then nothing was cancelled.
        asked_for = {"cancel_requested_at": Now()} if unfinished and not due else {}
        # At its deadline, however late somebody looked.
        Batch.objects.filter(pk=batch_id).update(sealed_at=Least(Now(), F("deadline_at")), **asked_for)
        transaction.on_commit(lambda: _tell(batch_id))
    return True


def _open_and_ours(batch_id: UUID) -> bool:
    """Whether the batch is not sealed; if so, nobody else seals it before our commit."""
    return Batch.objects.select_for_update().filter(pk=batch_id, sealed_at=None).exists()


def _note_what_is_unfinished(batch_id: UUID, cancelled: list[UUID]) -> int:
    """How many items are: what was cancelled just now, what ended after the deadline, and what another request's key made and still runs.

    A job that was accepted for another request is not this batch's to cancel.
    """
    late = Q(job__finished_at__gt=F("batch__deadline_at"))
    unfinished = Q(job__in=cancelled) | Q(job__isnull=False, job__finished_at=None) | late
    of_batch = BatchItem.objects.filter(unfinished, batch=batch_id).values("pk")
    return BatchItem.objects.filter(pk__in=of_batch).update(unfinished=True)


def _tell(batch_id: UUID) -> None:
    batch = Batch.objects.annotate(awaited=Q(awaited_until__gt=Now())).filter(pk=batch_id).first()
    if batch is None:  # pruned already: nobody waits so long
        return
    telemetry.BATCHES_SEALED.labels(batch.state).inc()
    log.info("batch_sealed", batch_id=str(batch_id), state=batch.state)
    sealed.send(None, batch_id=batch_id, awaited=bool(batch.awaited))


def seal_after_ends() -> None:
    """From here on this process, when it ends a job of a batch, looks whether it was the last."""
    lifecycle.ended_in_batch.connect(_look, dispatch_uid="batches")


def _look(sender: object, batch_id: UUID, **more: Any) -> None:
    """After the commit: of two that end the last two jobs at once, the one whose look is later sees both."""
    transaction.on_commit(lambda: _seal_or_leave(batch_id))


def _seal_or_leave(batch_id: UUID) -> None:
    """Never raises: the job's end is stored, and must not be taken for failed; the sweep makes up for it."""
    try:
        seal(batch_id, BRIEFLY_SECONDS)
    except RowHeld:
        log.info("seal_left", batch_id=str(batch_id))
    except Exception as error:
        log.warning("seal_failed", batch_id=str(batch_id), error=type(error).__name__)
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
