"""Where uploads and artifacts lie: Django's storage of the alias `jobs`, the same for every web process and worker.

Names there are ours, made of ids; what callers call their files is a column. A file's row is stored before the file,
marked once the file is whole, and deleted after it: so whatever process ends in between, every file has a row by which
a sweep finds it.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar, cast
from uuid import UUID

import structlog
from django.core.files import File
from django.core.files.storage import FileSystemStorage, storages
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from jobs.models import Artifact, Upload

log = structlog.get_logger(__name__)

ALIAS = "jobs"
# A row whose file was not whole after so long never gets it: its process has ended, or will give up on it.
UNFINISHED_SECONDS = 900.0
READ_AT_ONCE = 1_000  # rows that a sweep looks at with one question
REMOVED_AT_ONCE = 50  # files, until their rows are deleted: no more is done again if the run is killed
# Of one run, for each kind of file: other sweeps wait for it, and Celery kills what takes minutes.
REMOVING_SECONDS = 5.0

Row = TypeVar("Row", Upload, Artifact)


class StorageFailed(OSError):
    """The storage raised what only its own library knows."""


def put(name: str, content: IO[bytes]) -> None:
    """Store the whole content under this name; once it returns, a power cut takes nothing of it. Raises OSError, also
    where a part was stored.
    """
    storage = storages[ALIAS]
    content.seek(0)
    with _own_errors():
        given = storage.save(name, File(content))
    if given != name:
        storage.delete(given)
        raise OSError(f"The storage {ALIAS!r} took {given!r} for a name that was free.")
    if isinstance(storage, FileSystemStorage):  # any other keeps what it has taken in its own way
        path = Path(storage.path(name))
        for one in (
            path,
            path.parent,
            path.parent.parent,
        ):  # the file, its name, and that of its folder, which may be new
            _sync(one)


def _sync(path: Path) -> None:
    """To the disk. Of a file it matters not which descriptor wrote it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opened(name: str) -> BinaryIO:
    """For reading, to be closed: what the storage gives, which may have to let go of more than a file. Raises OSError
    (FileNotFoundError).
    """
    with _own_errors():
        return cast(BinaryIO, storages[ALIAS].open(name, "rb"))


@contextmanager
def _own_errors() -> Iterator[None]:
    """Around a storage of any kind. What stops the job in which it is called passes through: that is no Exception."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise StorageFailed(type(error).__name__) from error


def remove(name: str) -> bool:
    """Whether it is gone, which it may have been before. A storage that is away is for the next run to ask again."""
    try:
        storages[ALIAS].delete(name)
    except Exception as error:  # each backend has errors of its own
        log.warning("file_not_removed", file=name, error=type(error).__name__)
        return False
    return True


def remove_rows(rows: QuerySet[Row], staying: Callable[[list[Row]], set[UUID]] = lambda some: set()) -> int:
    """Remove files and their rows, the oldest first, for REMOVING_SECONDS; the number of rows deleted.

    `staying` names those of some rows that are needed yet. They, and what the storage does not remove, are passed over.
    """
    until = time.monotonic() + REMOVING_SECONDS
    removed, last = 0, None
    while some := list(_behind(last, rows)[:READ_AT_ONCE]):
        needed, last = staying(some), some[-1]
        removed += _remove_until(until, rows.model, [row for row in some if row.pk not in needed])
        if time.monotonic() >= until:
            break
    return removed


def _behind(last: Row | None, rows: QuerySet[Row]) -> QuerySet[Row]:
    """By keys, so that rows that stay are read once a run. The first condition is what the index is entered by."""
    ordered = rows.order_by("created_at", "pk")
    if last is None:
        return ordered
    later = Q(created_at__gt=last.created_at) | Q(pk__gt=last.pk)
    return ordered.filter(later, created_at__gte=last.created_at)


def _remove_until(until: float, model: type[Row], rows: Iterable[Row]) -> int:
    """One at least, however slow the storage is."""
    removed, gone = 0, list[UUID]()
    for row in rows:
        if remove(row.file_name):
            gone.append(row.pk)
        over = time.monotonic() >= until
        if over or len(gone) >= REMOVED_AT_ONCE:
            removed, gone = removed + _delete(model, gone), []
        if over:
            break
    return removed + _delete(model, gone)


def _delete(model: type[Row], gone: list[UUID]) -> int:
    return model._default_manager.filter(pk__in=gone).delete()[0] if gone else 0


def ago(seconds: float) -> Any:
    """An instant by the database's clock, as a filter takes it."""
    return Now() - timedelta(seconds=seconds)
