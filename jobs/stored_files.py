"""Where uploads and artifacts lie: Django's storage of the alias `jobs`, the same for every web process and worker.

Names there are ours, made of ids; what callers call their files is a column. A file's row is stored before the file, marked once the file
is whole, and deleted after it: so whatever process ends in between, every file has a row by which a sweep finds it.
"""

from datetime import timedelta
from typing import IO, Any, BinaryIO, cast

import structlog
from django.core.files import File
from django.core.files.storage import storages
from django.db.models.functions import Now

log = structlog.get_logger(__name__)

ALIAS = "jobs"
# A row whose file was not whole after so long never gets it: its process has ended, or will give up on it.
UNFINISHED_SECONDS = 900.0


def put(name: str, content: IO[bytes]) -> None:
    """Store the whole content under this name. Raises what the storage does."""
    content.seek(0)
    given = storages[ALIAS].save(name, File(content))
    if given != name:
        storages[ALIAS].delete(given)
        raise OSError(f"The storage {ALIAS!r} took {given!r} for a name that was free.")


def opened(name: str) -> BinaryIO:
    """For reading, to be closed. Raises FileNotFoundError."""
    return cast(BinaryIO, storages[ALIAS].open(name, "rb").file)


def remove(name: str) -> bool:
    """Whether it is gone, which it may have been before. A storage that is away is for the next run to ask again."""
    try:
        storages[ALIAS].delete(name)
    except Exception as error:  # each backend has errors of its own
        log.warning("file_not_removed", file=name, error=type(error).__name__)
        return False
    return True


def ago(seconds: float) -> Any:
    """An instant by the database's clock, as a filter takes it."""
    return Now() - timedelta(seconds=seconds)
