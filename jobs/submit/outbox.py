"""Jobs that a transaction asked for: written in it, admitted once it is committed, and never twice.

An entry is tried by the process that committed it, and from then on by a sweep that comes back when the refusal said, as a polite caller does.
It ends as admitted, in the statement that makes its job, or as given up, which is counted, logged and shown in the admin.
"""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Literal
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, DateTimeField, F, Min, Q, QuerySet, Value
from django.db.models.functions import Least, Now
from django.db.utils import InterfaceError, OperationalError

from jobs import entrance, telemetry
from jobs.admission import Admitted, EntryGone, Rejected, Replayed
from jobs.door import asking
from jobs.door.asking import IN_PROCESS, AskedJob
from jobs.door.idempotency import Idempotency, Mismatch
from jobs.door.invalid import InvalidJob
from jobs.door.refusals import LASTING
from jobs.door.submission import said_of
from jobs.entrance import RateLimited
from jobs.models import ApiClient, Job, OutboxEntry
from jobs.registry import AuthorsFault
from jobs.submit import calls

log = structlog.get_logger(__name__)

EntryState = OutboxEntry.State

MOST_WAITING = 10_000  # as in a class's waiting room: a look at all of them stays cheap
BATCH = 100  # entries of one class in one run of the sweep, so that the other sweeps get their turn
NEXT_TRY_SECONDS = 5.0  # after what no Retry-After was said for
LONGEST_PAUSE_SECONDS = 30.0  # a class without workers says 300 s; when they are back, nobody should wait so long
SHORTEST_TRYING_SECONDS, LONGEST_TRYING_SECONDS = 1, 7 * 86_400


class OutboxFull(RuntimeError):
    """So many entries wait already that the classes will not catch up; the transaction should not go on as if one more would be run."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_WAITING} jobs wait in the outbox already; nothing was written.")


def write(asked: AskedJob, keep_trying_seconds: float | None) -> UUID:
    """An entry in the caller's transaction, which is tried at its commit; without one at once. Its id.

    Raises InvalidJob, UnknownClient and OutboxFull; then nothing is written.
    """
    patience = _patience(keep_trying_seconds)
    # Not made here, or whoever makes it too would wait for the end of the caller's transaction.
    client = calls.client_there(asked.client)
    cost_class = asking.submission(asked, client or ApiClient(name=asked.client)).cost_class
    if _waiting()[:MOST_WAITING].count() == MOST_WAITING:
        raise OutboxFull
    deadline_at = _deadline(asked)
    until = Now() + timedelta(seconds=patience)
    entry = OutboxEntry.objects.create(
        **said_of(asked),
        client=client,
        cost_class=cost_class.name,
        timeout_seconds=asked.timeout_seconds,
        max_wait_seconds=asked.max_wait_seconds,
        deadline_at=deadline_at,
        key=asked.key or "",
        fingerprint=asked.idempotency.fingerprint if asked.idempotency else "",
        try_until=until if deadline_at is None else Least(until, deadline_at),
    )
    if connection.in_atomic_block:
        transaction.on_commit(lambda: _try_at_once(entry.pk))
    elif connection.get_autocommit():
        _try_at_once(entry.pk)
    return entry.pk  # of a transaction without atomic() nobody tells the commit: the sweep finds it


def _patience(asked: float | None) -> float:
    if asked is None:
        return float(settings.WEIGHBRIDGE_OUTBOX_SECONDS)
    if not SHORTEST_TRYING_SECONDS <= asked <= LONGEST_TRYING_SECONDS:
        message = f"must be from {SHORTEST_TRYING_SECONDS} to {LONGEST_TRYING_SECONDS} seconds"
        errors = [{"loc": ["keep_trying_seconds"], "msg": message}]
        raise InvalidJob("limit_out_of_range", f"keep_trying_seconds is {asked!r}, but {message}.", errors)
    return asked


def _deadline(asked: AskedJob) -> Any:
    """As the database's clock has it, for a column; None if there is none."""
    given: list[Any] = []
    if asked.deadline_seconds is not None:
        given.append(Now() + timedelta(seconds=max(0.0, asked.deadline_seconds)))
    if asked.deadline_at is not None:
        given.append(Value(asked.deadline_at, output_field=DateTimeField()))
    return Least(*given) if len(given) == 2 else next(iter(given), None)


def _try_at_once(entry_id: UUID) -> None:
    """The transaction is committed and its caller goes on: whatever happens here is made up for by the sweep."""
    try:
        try_one(entry_id)
    except Exception as error:
        log.warning("outbox_waits", entry_id=str(entry_id), error=type(error).__name__)


def run_once() -> int:
    """Try the entries whose time has come; the number that ended. Safe side by side with other runs.

    What was refused goes behind what has waited since, so that no client's many entries keep another's from being tried. Nor do those of a
    client that submits too often: once it is told so, what its rate has not let through yet is left for the next run.
    """
    limited: set[int | None] = set()
    classes = _waiting().filter(try_at__lte=Now()).order_by().values_list("cost_class", flat=True).distinct()
    return sum(_try_class(cost_class, limited) for cost_class in classes)


def _try_class(cost_class: str, limited: set[int | None]) -> int:
    """The number that ended. Clients that turn out to submit too often are added to `limited`."""
    ended, tried = 0, set[UUID]()
    while due := _due(cost_class, limited, tried):
        for entry_id, client_id in due:
            tried.add(entry_id)
            outcome = try_one(entry_id)
            ended += outcome in {"admitted", "given_up"}
            if outcome == "full":
                return ended  # it will be for the others too
            if outcome == "limited":
                limited.add(client_id)
                break  # to look again, without the client's others
        else:
            return ended
    return ended


def _due(cost_class: str, limited: set[int | None], tried: set[UUID]) -> list[tuple[UUID, int | None]]:
    """What is left of this run's turn of the class, in its order."""
    theirs = Q(client__in=[pk for pk in limited if pk is not None])
    if None in limited:
        theirs |= Q(client=None)
    due = _waiting().filter(cost_class=cost_class, try_at__lte=Now()).exclude(pk__in=tried).exclude(theirs & _UNCOUNTED)
    return list(due.order_by("try_at", "pk").values_list("pk", "client")[: BATCH - len(tried)])


# An entry counts once against its client's rate: at the first try that the rate lets through.
_UNCOUNTED = Q(tries=0) | Q(reason="rate_limited")

Outcome = Literal["admitted", "given_up", "later", "full", "limited", "gone"]


def try_one(entry_id: UUID) -> Outcome:
    """Ask the door for this entry. Raises only for the database; what else is wrong is the entry's."""
    entry = _waiting().select_related("client").filter(pk=entry_id).first()
    if entry is None:
        return "gone"
    try:
        client = entry.client or calls.client_named(IN_PROCESS)
        answer = _ask(entry, client)
    except EntryGone:
        return "gone"
    except InvalidJob as error:  # an older or newer process may know the type, or other limits
        return _refused(entry, error.code)
    except Mismatch:
        return _refused(entry, "idempotency_mismatch")
    except AuthorsFault as error:
        log.error(error.code, entry_id=str(entry.pk), type=error.job_type, error=str(error))
        return _refused(entry, error.code)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # of the type's own code; without its message, which may hold params
        log.error("outbox_entry_failed", entry_id=str(entry.pk), error=type(error).__name__)
        return _refused(entry, "internal_error")
    match answer:
        case Admitted(job):
            return _told_admitted(entry, job)
        case Replayed(job):
            return _found(entry, job)
        case Rejected() | RateLimited():
            return _refused(entry, answer.reason, answer.retry_after_seconds)


def _ask(entry: OutboxEntry, client: ApiClient) -> entrance.Answer:
    asked = _as_asked(entry)
    submission = partial(asking.submission, asked, client, entry.pk)
    return entrance.come_in(client, asked.idempotency, submission, counted=_is_counted(entry)).answer


def _is_counted(entry: OutboxEntry) -> bool:
    """As _UNCOUNTED has it for many."""
    return entry.tries > 0 and entry.reason != "rate_limited"


def _as_asked(entry: OutboxEntry) -> AskedJob:
    return AskedJob(
        **said_of(entry),
        timeout_seconds=entry.timeout_seconds,
        max_wait_seconds=entry.max_wait_seconds,
        deadline_at=entry.deadline_at,
        idempotency=Idempotency(entry.key, entry.fingerprint) if entry.key else None,
    )


def _found(entry: OutboxEntry, job: Job) -> Outcome:
    """Its key stands for a job that there was before: unlike admission that makes nothing, so the entry may be written by itself."""
    still = _waiting().filter(pk=entry.pk)
    if still.update(state=EntryState.ADMITTED, job=job, ended_at=Now(), reason="", params={}, tries=F("tries") + 1):
        return _told_admitted(entry, job)
    return "gone"


def _told_admitted(entry: OutboxEntry, job: Job) -> Outcome:
    telemetry.OUTBOX.labels("admitted").inc()
    log.info("outbox_admitted", entry_id=str(entry.pk), job_id=str(job.pk), tries=entry.tries + 1)
    return "admitted"


def _refused(entry: OutboxEntry, reason: str, after_seconds: float = NEXT_TRY_SECONDS) -> Outcome:
    """Given up if it cannot be cured or its time is over by the database's clock; else there is a next try, the last one at the very end."""
    still = _waiting().filter(pk=entry.pk)
    over = still if reason in LASTING else still.filter(try_until__lte=Now())
    if over.update(state=EntryState.GIVEN_UP, ended_at=Now(), reason=reason, tries=F("tries") + 1):
        telemetry.OUTBOX.labels("given_up").inc()
        log.warning("outbox_given_up", entry_id=str(entry.pk), type=entry.type, client=_client_of(entry), reason=reason)
        return "given_up"
    pause = timedelta(seconds=min(after_seconds, LONGEST_PAUSE_SECONDS))
    still.update(reason=reason, tries=F("tries") + 1, try_at=Least(Now() + pause, F("try_until")))
    return _AFTER.get(reason, "later")


_AFTER: dict[str, Outcome] = {
    "queue_full": "full",
    "class_draining": "full",
    "unavailable": "full",
    "rate_limited": "limited",
}


def _client_of(entry: OutboxEntry) -> str:
    return entry.client.name if entry.client else IN_PROCESS


def _waiting() -> QuerySet[OutboxEntry]:
    return OutboxEntry.objects.filter(state=EntryState.WAITING)


def depth() -> Iterator[tuple[str, int, float]]:
    """Per class with entries that wait: how many, and the age of the oldest in seconds."""
    rows = _waiting().order_by().values("cost_class").annotate(waiting=Count("pk"), oldest=Now() - Min("written_at"))
    for row in rows:
        yield row["cost_class"], row["waiting"], row["oldest"].total_seconds()
