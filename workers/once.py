"""`ctx.once`: an effect that a job has once, however many attempts it takes (P28).

The rule is here; where keys are kept is the store's business: the database for a job, memory for a handler that
runs without one.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from uuid import UUID

import structlog
from django.db import connection
from django.db.utils import DatabaseError, DataError, IntegrityError, InterfaceError

from jobs import once as stored
from jobs.once import Kept, StaleAttempt
from jobs.storable import holds_nul
from workers.failures import LeaseLost, ResultNotKept

log = structlog.get_logger(__name__)

KEY_LENGTH = 200
LARGEST_BYTES = 1_048_576  # of one result; an effect's receipt, not a job's result
STORE_RETRY_SECONDS = 0.5
_ALLOW = "DJANGO_ALLOW_ASYNC_UNSAFE"


class Store(Protocol):
    def recall(self, key: str) -> Kept | None: ...
    def keep(self, key: str, text: str) -> Kept: ...
    def take(self, key: str) -> bool: ...


def once(store: Store, key: str, fn: Callable[[], Any] | None) -> Any:
    """What JobContext.once does, with its keys in `store`."""
    _check(key)
    if fn is None:
        return store.take(key)
    kept = store.recall(key)
    if kept is None:
        kept = _kept(store, key, fn())
    if kept.taken:
        raise ValueError(f"once({key!r}) was taken alone before, so there is no result to return; use another key.")
    return kept.result


def _kept(store: Store, key: str, result: object) -> Kept:
    """The effect has happened: where its result cannot be kept, the key is taken all the same, so that it does not happen again."""
    try:
        text = _as_json(key, result)
    except ValueError as error:
        store.take(key)
        raise ResultNotKept(str(error)) from None
    return store.keep(key, text)


def _check(key: str) -> None:
    if not (isinstance(key, str) and 1 <= len(key) <= KEY_LENGTH and "\0" not in key):
        raise ValueError(f"once key {key!r:.80}: must be text of 1 to {KEY_LENGTH} characters.")


def _as_json(key: str, result: object) -> str:
    """Too late to prevent the effect, but the author is told the first time the code runs."""
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"The result of once({key!r}) is not JSON-able data: {error}") from None
    if size > LARGEST_BYTES:
        raise ValueError(f"The result of once({key!r}) is {size} bytes; at most {LARGEST_BYTES} are kept.")
    if "\\u0000" in text and holds_nul(json.loads(text)):
        raise ValueError(f"The result of once({key!r}) holds the character U+0000, which cannot be stored.")
    return text


class Memory:
    """Keys of a handler that runs without a job in the database; gone with the process."""

    def __init__(self, kept: Mapping[str, Kept] | None = None) -> None:
        self._kept = dict(kept or {})

    def copy(self) -> "Memory":
        return Memory(self._kept)

    def recall(self, key: str) -> Kept | None:
        return self._kept.get(key)

    def keep(self, key: str, text: str) -> Kept:
        return self._kept.setdefault(key, Kept(json.loads(text)))

    def take(self, key: str) -> bool:
        taken = Kept(taken=True)
        return self._kept.setdefault(key, taken) is taken


class Database:
    """Keys of one attempt of one job."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self._job_id = job_id
        self._attempt = attempt

    def recall(self, key: str) -> Kept | None:
        with _own_statement():
            return stored.recall(self._job_id, self._attempt, key)

    def keep(self, key: str, text: str) -> Kept:
        """The effect has happened, so this is tried for as long as the attempt lasts: its limit ends it."""
        while True:
            try:
                with _own_statement():
                    return stored.keep(self._job_id, self._attempt, key, text)
            except (DatabaseError, InterfaceError) as error:
                if _in_a_transaction() or isinstance(error, (DataError, IntegrityError)):
                    raise
                log.warning("once_waits", error=type(error).__name__)
                connection.close()
                time.sleep(STORE_RETRY_SECONDS)

    def take(self, key: str) -> bool:
        """Never repeated: an answer that got lost may have been a yes."""
        with _own_statement():
            return stored.take(self._job_id, self._attempt, key)


@contextmanager
def _own_statement() -> Iterator[None]:
    """On a connection that is known to live, also while the handler's event loop runs."""
    with on_this_thread():
        if not _in_a_transaction():
            connection.close_if_unusable_or_obsolete()
        try:
            yield
        except StaleAttempt:
            raise LeaseLost from None


def _in_a_transaction() -> bool:
    """What is stored in the handler's own transaction is kept or undone together with it."""
    with on_this_thread():
        return connection.in_atomic_block or (connection.connection is not None and not connection.get_autocommit())


@contextmanager
def on_this_thread() -> Iterator[None]:
    """Django refuses the database to code under an event loop, lest it blocks the loop. Ours are single statements of
    a process that has nothing but this job to do, on the connection of its own thread."""
    _leave.enter()
    try:
        yield
    finally:
        _leave.exit()


class _Leave:
    """Django's leave lies in the environment, so in all threads at once: the first one in sets it, the last one out
    puts back what was there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal that raises here must not lock its own thread out for good
        self._inside = 0
        self._before: str | None = None

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = os.environ.get(_ALLOW)
                os.environ[_ALLOW] = "true"
            self._inside += 1

    def exit(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside:
                return
            if self._before is None:
                os.environ.pop(_ALLOW, None)
            else:
                os.environ[_ALLOW] = self._before


_leave = _Leave()
