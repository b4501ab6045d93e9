"""`ctx.artifacts`: files that a job leaves for its caller.

The rules are here; where files are kept is the store's business: the storage and the database for a job, memory or a
folder for a handler that runs without one. What is kept is seen only once the job has succeeded by this attempt; see
jobs/files/artifacts.py.
"""

import io
import re
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import connections
from django.db.utils import InterfaceError, OperationalError

from jobs.files import artifacts, stored_files
from jobs.files.artifacts import Made
from jobs.files.spool import Spool, SpoolFull
from jobs.once import StaleAttempt
from workers.failures import Fail, LeaseLost
from workers.once import on_this_thread

log = structlog.get_logger(__name__)

NAME_LENGTH = 100
MOST_FILES = 100  # of one attempt; they are listed with the job
STORE_RETRY_SECONDS = 0.5
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]{0,62}/[A-Za-z0-9][\w.+-]{0,62}(; ?charset=[A-Za-z0-9-]{1,20})?", re.ASCII)


class Store(Protocol):
    def put(self, name: str, content_type: str, spool: Spool) -> None: ...


class Artifacts:
    """Of one attempt. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()  # a signal that raises here must not lock its own thread out for good
        self._names: set[str] = set()
        self._left_bytes: int = settings.WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES

    @contextmanager
    def create(self, name: str, content_type: str = "application/octet-stream") -> Iterator[BinaryIO]:
        """A file to write bytes to; it is kept when the block ends, and not when the block raises.

        name: what the caller finds it by, up to 100 characters, without / and \\, once in an attempt. content_type: a
        media type. Raises ValueError for others, Fail (artifact_too_large, too_many_artifacts) beyond the sizes of the
        settings or 100 files, LeaseLost when the job is somebody else's by now, and OSError when the storage takes
        nothing.
        """
        name = _checked(name, content_type)
        self._take(name)
        try:
            with Spool(min(settings.WEIGHBRIDGE_MAX_ARTIFACT_BYTES, self._left_bytes)) as spool:
                yield cast(BinaryIO, _Writer(name, spool))
                with self._counted(name, spool.size_bytes):
                    self._store.put(name, content_type, spool)
        except BaseException:
            self._names.discard(name)
            raise

    def _take(self, name: str) -> None:
        with self._lock:
            if name in self._names:
                raise ValueError(f"This attempt has an artifact {name!r} already.")
            if len(self._names) >= MOST_FILES:
                raise Fail("too_many_artifacts", f"The job leaves more than {MOST_FILES} files.")
            self._names.add(name)

    @contextmanager
    def _counted(self, name: str, size_bytes: int) -> Iterator[None]:
        """Several may have been written at once, each within what was left when it began. What is not stored is given
        back.
        """
        with self._lock:
            if size_bytes > self._left_bytes:
                raise _too_large(name)
            self._left_bytes -= size_bytes
        try:
            yield
        except BaseException:
            with self._lock:
                self._left_bytes += size_bytes
            raise


class _Writer(io.RawIOBase):
    """What a handler writes to: forwards only."""

    def __init__(self, name: str, spool: Spool) -> None:
        self._name, self._spool = name, spool

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        try:
            return self._spool.write(some)
        except SpoolFull:
            raise _too_large(self._name) from None

    def tell(self) -> int:
        return self._spool.size_bytes


def _too_large(name: str) -> Fail:
    one, all_bytes = settings.WEIGHBRIDGE_MAX_ARTIFACT_BYTES, settings.WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES
    sentence = f"The file {name} is too large: at most {one} bytes are kept of one file, and {all_bytes} of a job."
    return Fail("artifact_too_large", sentence)


def _checked(name: str, content_type: str) -> str:
    """The name in the one form in which it is kept. Raises ValueError."""
    plain = unicodedata.normalize("NFC", name)
    # What is not printable: controls, also those that turn a line around, lone surrogates, odd spaces.
    if not (1 <= len(plain) <= NAME_LENGTH and plain.isprintable() and plain == plain.strip()):
        raise ValueError(f"Artifact name {name!r:.150}: must be 1 to {NAME_LENGTH} printable characters.")
    if plain.startswith(".") or "/" in plain or "\\" in plain:
        raise ValueError(f"Artifact name {name!r:.150}: must not begin with a dot, nor hold / or \\.")
    if not _MEDIA_TYPE.fullmatch(content_type):
        raise ValueError(f"Artifact {plain!r}: {content_type!r:.150} is no media type such as image/png.")
    return plain


@dataclass(frozen=True)
class Kept:
    """A file as its caller would have it."""

    content_type: str
    data: bytes


class Memory:
    """Files of a handler that runs without a job in the database; gone with the process."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def put(self, name: str, content_type: str, spool: Spool) -> None:
        self.kept[name] = Kept(content_type, _content(spool))


class Folder:
    """Files of a handler that is run by hand: in a folder, a new one if none is said, under their own names."""

    def __init__(self, folder: Path | None, tell: Callable[[Path], None]) -> None:
        self._folder, self._tell = folder, tell

    def put(self, name: str, content_type: str, spool: Spool) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="artifacts-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_bytes(_content(spool))
        self._tell(self._folder / name)


def _content(spool: Spool) -> bytes:
    spool.file.seek(0)
    return spool.file.read()


class Database:
    """Files of one attempt of one job."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self._job_id, self._attempt = job_id, attempt

    def put(self, name: str, content_type: str, spool: Spool) -> None:
        made = Made(uuid4(), self._job_id, self._attempt, name, content_type, spool.size_bytes, spool.sha256)
        try:
            with on_this_thread():
                self._tell(artifacts.begin, made)
                self._store(made, spool)
                self._tell(artifacts.finish, made)
        except StaleAttempt:
            stored_files.remove(made.file_name)
            raise LeaseLost from None
        log.info("artifact_kept", artifact_id=str(made.id), size_bytes=made.size_bytes)

    def _store(self, made: Made, spool: Spool) -> None:
        try:
            stored_files.put(made.file_name, spool.file)
        except Exception:
            if stored_files.remove(made.file_name):  # else the sweep finds it by its row
                self._tell(artifacts.take_back, made)
            raise

    def _tell(self, tell: Callable[[Any, Made], None], made: Made) -> None:
        """While the database is away, for as long as the attempt lasts: its limit ends it. On a connection of its own:
        what the handler's transaction undoes must not be the row of a file that stays.
        """
        while True:
            own = connections.create_connection("default")
            try:
                return tell(own, made)
            except (OperationalError, InterfaceError) as error:
                log.warning("artifact_waits", error=type(error).__name__)
                time.sleep(STORE_RETRY_SECONDS)
            finally:
                own.close()
