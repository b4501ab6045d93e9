"""Submit a job from your own Django code, in the installation that Weighbridge is part of.

    from jobs.submit import Admitted, submit

    match submit("routes.optimize", {"stops": 12}, key=f"order-{order.pk}"):
        case Admitted(job) | Replayed(job): …
        case refused: …  # refused.reason, refused.retry_after_seconds

It is the door that callers of the API come through: the same checks in the same order, the same room, the same quotas. A refusal is an answer and
nothing of it is left; what no job can be made of is raised.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, Literal, Unpack, overload
from uuid import UUID

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from pydantic import BaseModel

from jobs import entrance
from jobs.admission import Admitted, Rejected, Replayed
from jobs.door import asking
from jobs.door.asking import IN_PROCESS, AskedJob
from jobs.door.idempotency import BadKey, Mismatch
from jobs.door.invalid import InvalidJob
from jobs.entrance import Answer, RateLimited
from jobs.files import uploads
from jobs.files.room import NoRoom
from jobs.files.spool import Spool, SpoolFull
from jobs.models import ApiClient
from jobs.submit import calls, outbox
from jobs.submit.calls import Options, UnknownClient
from jobs.submit.outbox import OutboxFull

__all__ = [
    "IN_PROCESS",
    "Admitted",
    "Answer",
    "BadKey",
    "Deferred",
    "InTransaction",
    "InvalidJob",
    "Mismatch",
    "OutboxFull",
    "RateLimited",
    "Rejected",
    "Replayed",
    "NoRoom",
    "UnknownClient",
    "keep_upload",
    "submit",
]


READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class Deferred:
    """Written down with the caller's transaction; `entry_id` is that of the OutboxEntry, whose `state`, `job` and `reason` say what became of it."""

    entry_id: UUID


class InTransaction(RuntimeError):
    """A job cannot be submitted just here, inside a transaction; the text says what to do. Nothing was done."""


# Tests put a function here that takes what is asked for, in the place of the door: jobs.testing.
door_instead: Callable[[AskedJob, bool], Answer | Deferred] | None = None
storage_instead: Callable[[bytes], str] | None = None  # and one in the place of the storage


@overload
def submit(
    type: str,
    params: Mapping[str, Any] | BaseModel | None = None,
    *,
    on_commit: Literal[False] = False,
    **options: Unpack[Options],
) -> Answer: ...


@overload
def submit(
    type: str,
    params: Mapping[str, Any] | BaseModel | None = None,
    *,
    on_commit: Literal[True],
    keep_trying_seconds: float | None = None,
    **options: Unpack[Options],
) -> Deferred: ...


def submit(
    type: str,
    params: Mapping[str, Any] | BaseModel | None = None,
    *,
    on_commit: bool = False,
    keep_trying_seconds: float | None = None,
    **options: Unpack[Options],
) -> Answer | Deferred:
    """Ask for one job, now, or with `on_commit` once the caller's transaction is committed.

    params: JSON-able, or an instance of the type's pydantic model. Durations are seconds.
    key: 1 to 255 visible ASCII characters. The same key and request of a client bring the same job, as Replayed, for as long as keys are kept
        (WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS).
    client: the name of the API client that the job belongs to, whose quotas count and whose keys may read it; it must be there.
    timeout_seconds, max_wait_seconds, labels: as in the body of POST /api/v1/jobs.
    deadline_seconds from now, deadline_at: the earlier counts.
    priority (-100 to 100), flow (a tenant of the caller's, say): which of the client's own jobs goes first (P11a).
    on_commit: the job is written down in the transaction of the database `default`, goes with it if it is rolled back, and is admitted right after the
        commit, or as soon as there is room. For how long that is tried keep_trying_seconds says, else WEIGHBRIDGE_OUTBOX_SECONDS.

    Returns Admitted or Replayed with the `job`, or Rejected or RateLimited with `reason` and `retry_after_seconds`; with `on_commit` Deferred.

    Raises InvalidJob (with `code` and `errors`), BadKey, Mismatch when the key belongs to another request, UnknownClient, InTransaction,
    OutboxFull, and Django's OperationalError when the database is away.
    """
    _refuse_place(on_commit)
    asked = calls.read(type, params, options)
    if door_instead is not None:
        return door_instead(asked, on_commit)
    if on_commit:
        return Deferred(outbox.write(asked, keep_trying_seconds))
    return _come_in(asked, calls.client_named(asked.client))


def _come_in(asked: AskedJob, client: ApiClient) -> Answer:
    return entrance.come_in(client, asked.idempotency, lambda: asking.submission(asked, client)).answer


def _refuse_place(on_commit: bool) -> None:
    """Admission holds its class's lock until its transaction ends, so it must not be somebody else's (P1)."""
    ours = _in_transaction(DEFAULT_DB_ALIAS)
    if ours and not on_commit:
        raise InTransaction(
            "submit() was called inside a transaction, which would keep everybody else out of the job's class until it ends."
            " Call it after the commit, or say on_commit=True."
        )
    if on_commit and not ours:
        others = [one.alias for one in connections.all(initialized_only=True) if _in_transaction(one.alias)]
        if others:
            raise InTransaction(
                f"submit(on_commit=True) goes with a transaction of {DEFAULT_DB_ALIAS!r}, where jobs are kept, and the one that is open is of"
                f" {others[0]!r}, whose end it would not hear of. Open one of {DEFAULT_DB_ALIAS!r} around it, or submit after the commit."
            )


def keep_upload(content: bytes | IO[bytes], *, client: str = IN_PROCESS) -> str:
    """Keep a file for params to name (`UploadId`), as POST /api/v1/uploads does; its id.

    content: bytes, or a binary file, read from where it stands to its end.
    client: whose it is. Only jobs that are submitted for the same client may name it.

    It is kept for WEIGHBRIDGE_KEEP_UPLOADS_SECONDS, and while a job that has not ended names it. Raises InvalidJob (`too_large`) above
    WEIGHBRIDGE_MAX_UPLOAD_BYTES, NoRoom when the client would keep more than it may, UnknownClient, OSError when there is no disk, and InTransaction:
    a rollback would take the row, and leave the file to nobody.
    """
    if _in_transaction(DEFAULT_DB_ALIAS):
        raise InTransaction(
            "keep_upload() was called inside a transaction, whose rollback no file goes with. Call it before."
        )
    if storage_instead is not None:
        return storage_instead(content if isinstance(content, bytes) else content.read())
    owner = calls.client_named(client)
    with Spool(settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES) as spool:
        _fill(spool, BytesIO(content) if isinstance(content, bytes) else content)
        return str(uploads.keep(owner, spool).upload.pk)


def _fill(spool: Spool, file: IO[bytes]) -> None:
    try:
        while some := file.read(READ_BYTES):
            spool.write(some)
    except SpoolFull:
        raise InvalidJob("too_large", f"The file is larger than {spool.most_bytes} bytes.") from None


def _in_transaction(alias: str) -> bool:
    """Without opening a connection. What Django's TestCase has opened around a test counts for none, as it does for `durable`."""
    connection = connections[alias]
    if connection.in_atomic_block:
        return not all(
            getattr(block, "_from_testcase", False) for block in getattr(connection, "atomic_blocks", [None])
        )
    if connection.connection is None:
        return not connection.settings_dict["AUTOCOMMIT"]
    return not connection.autocommit
