"""Uploads: files that callers send, for jobs to read. Each is its client's own, kept for its time and while a live job
names it, or an outbox entry that waits.

Which of them name an upload is read from their params, where ids stand in one form only (jobs/files/upload_ids.py), so
admission has nothing to write and a refusal costs nothing. Between the look at an upload and the commit of its job lies
a while in which nothing shows that it is needed. So none is ever removed at once: one that is deleted, or past its
time, is hidden from new submits, and the sweep removes it only a minute later, when whatever had seen it is a live job
or was refused.
"""

from dataclasses import dataclass
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from pydantic import BaseModel

from jobs.files import stored_files, upload_ids
from jobs.files.room import refuse_without_room
from jobs.files.spool import Spool
from jobs.files.stored_files import UNFINISHED_SECONDS, ago
from jobs.files.upload_ids import Place
from jobs.models import ApiClient, Upload

log = structlog.get_logger(__name__)

# From the look at an upload to the commit of its job. That waits a second for each lock at most, of which a batch needs
# one for each class; a database that falls silent is noticed after 11 s (settings.py).
ADMISSION_SECONDS = 60.0


class UnknownUploads(ValueError):
    """Params name what is no upload of this client: another's, one that is gone, one that never was."""

    def __init__(self, places: list[Place]) -> None:
        super().__init__(upload_ids.UNKNOWN)
        self.places = places


class KeyTaken(Exception):
    """The client's Idempotency-Key stands for another upload."""


@dataclass(frozen=True)
class Kept:
    """`replayed`: it came before, under the same key."""

    upload: Upload
    replayed: bool = False


def keep(client: ApiClient, spool: Spool, key: str | None = None) -> Kept:
    """Store what came. Raises NoRoom, KeyTaken, and what the storage does when it cannot."""
    if (first := _under(client, key)) is not None:
        return _replayed(first, spool)
    upload = _begun(client, spool)
    try:
        stored_files.put(upload.file_name, spool.file)
        _finish(upload, key)
    except IntegrityError:  # of two at once under one key this is the second
        _remove(upload)
        first = _under(client, key)
        if first is None:
            raise
        return _replayed(first, spool)
    except BaseException:
        _remove(upload)
        raise
    log.info("upload_kept", upload_id=str(upload.pk), size_bytes=upload.size_bytes)
    return Kept(upload)


def _under(client: ApiClient, key: str | None) -> Upload | None:
    return None if key is None else of_client(client.pk).filter(key=key).first()


def _replayed(first: Upload, spool: Spool) -> Kept:
    if first.sha256 != spool.sha256:
        raise KeyTaken
    return Kept(first, replayed=True)


def _begun(client: ApiClient, spool: Spool) -> Upload:
    """The row, before its file. One at a time of a client, so that all of them never keep more than they may."""
    with transaction.atomic():
        ApiClient.objects.select_for_update(no_key=True).get(pk=client.pk)
        refuse_without_room(client, spool.size_bytes)
        return Upload.objects.create(client=client, size_bytes=spool.size_bytes, sha256=spool.sha256)


def _finish(upload: Upload, key: str | None) -> None:
    """The key is taken only now: a process that ended before leaves none behind that nobody could use again."""
    with transaction.atomic():
        if key is not None:  # the upload that it stood for is past its time, or deleted
            Upload.objects.filter(client=upload.client_id, key=key).exclude(_in_time()).update(key=None)
        Upload.objects.filter(pk=upload.pk).update(stored_at=Now(), key=key)
    upload.refresh_from_db()


def _remove(upload: Upload) -> None:
    """File first. What cannot be removed now the sweep finds by its row."""
    if stored_files.remove(upload.file_name):
        Upload.objects.filter(pk=upload.pk).delete()


# ── Looking at them ──────────────────────────────────────────────────────────────────────────────────────────────────


def of_client(client_id: int) -> QuerySet[Upload]:
    """Those that may be named: whole, in their time, and not deleted."""
    return _whole(client_id).filter(_in_time())


def _whole(client_id: int) -> QuerySet[Upload]:
    return Upload.objects.filter(client_id=client_id, stored_at__isnull=False)


def _in_time() -> Q:
    return Q(created_at__gt=ago(settings.WEIGHBRIDGE_KEEP_UPLOADS_SECONDS), deleted_at__isnull=True)


def refuse_unknown(client_id: int, params: BaseModel, *, named_before: bool = False) -> None:
    """Raises UnknownUploads for ids in validated params that are no uploads of this client. Params without any cost no
    query.

    named_before: they were looked at when they were written down, and keep what they name; that it is past its time, or
    deleted since, is no objection any more.
    """
    named = list(upload_ids.found_in(params))
    if not named:
        return
    theirs = _whole(client_id) if named_before else of_client(client_id)
    known = _looked_at(theirs.filter(pk__in={name for _, name in named}))
    unknown = [place for place, name in named if name not in known]
    if unknown:
        raise UnknownUploads(unknown)


def _looked_at(those: QuerySet[Upload]) -> set[str]:
    """Their ids. Inside a transaction they are held until it ends, however late: what it writes is not to be seen
    before, and the sweep goes past rows that are held.
    """
    if connection.get_autocommit():
        return set(map(str, those.values_list("pk", flat=True)))
    statement, params = those.values_list("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(statement + _HELD, params)
        return {str(pk) for (pk,) in cursor.fetchall()}


# Raw SQL, since the ORM's locks shut each other out, and many transactions may name one upload at once. Nor does a
# DELETE of the API wait for this one, or who uses the upload's key again: neither changes what a foreign key could
# refer to.
_HELD = " FOR KEY SHARE"


def of_job(job_id: UUID, upload_id: str) -> Upload | None:
    """The upload, past its time or deleted too, if it is of the client whose job this is."""
    if not upload_ids.is_one(upload_id):
        return None
    return Upload.objects.filter(pk=upload_id, client__jobs=job_id, stored_at__isnull=False).first()


# ── Their end ────────────────────────────────────────────────────────────────────────────────────────────────────────


def discard(upload: Upload) -> bool:
    """Hide one that its client needs no more; False while a job that has not ended names it, or an entry that waits.

    A submit that saw it before may be admitted after. It is none the worse for it: the file is there for its job, and
    goes with a later sweep.
    """
    if _named([upload]):
        return False
    Upload.objects.filter(pk=upload.pk, deleted_at__isnull=True).update(deleted_at=Now())
    return True


def prune() -> int:
    """Remove those deleted or past their time that nothing live names, and what was never finished; the number removed."""
    old = Q(created_at__lt=ago(settings.WEIGHBRIDGE_KEEP_UPLOADS_SECONDS + ADMISSION_SECONDS))
    deleted = Q(deleted_at__lt=ago(ADMISSION_SECONDS))
    unfinished = Q(stored_at__isnull=True, created_at__lt=ago(UNFINISHED_SECONDS))
    return stored_files.remove_rows(Upload.objects.filter(old | deleted | unfinished), _needed)


def _needed(uploads: list[Upload]) -> set[UUID]:
    """The held ones first: a transaction that ends in between has written what names them by the second look."""
    return _held(uploads) | _named(uploads)


def _held(uploads: list[Upload]) -> set[UUID]:
    ids = {upload.pk for upload in uploads}
    with transaction.atomic():
        free = Upload.objects.select_for_update(skip_locked=True).filter(pk__in=ids)
        return ids - set(free.values_list("pk", flat=True))


def _named(uploads: list[Upload]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_NAMED, {"clients": [upload.client_id for upload in uploads], "form": upload_ids.FORM})
        named = {UUID(name) for (name,) in cursor.fetchall()}
    return named & {upload.pk for upload in uploads}


# Raw SQL, since the ORM has no regexp_matches. Live jobs are bounded by the room of their classes, entries that wait by
# MOST_WAITING, and so is what this reads. One statement for both, since an entry becomes a job in one: its snapshot
# holds the one or the other.
_NAMED = """
SELECT (regexp_matches(params::text, %(form)s, 'g'))[1] FROM jobs_job
WHERE state IN ('queued', 'running') AND client_id = ANY(%(clients)s)
UNION
SELECT (regexp_matches(params::text, %(form)s, 'g'))[1] FROM jobs_outboxentry
WHERE state = 'waiting' AND client_id = ANY(%(clients)s)
"""
