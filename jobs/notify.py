"""Who waits for what: the end of a job or the seal of a batch, told to whoever waits for it in this process (P31).

What is waited for bears a mark; whoever ends or seals it says so on one channel of Redis. And twice a second each
process asks the database about all that it waits for, so a notice that is lost, or was never sent, costs half a second.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import close_old_connections, connection, transaction
from django.db.models.functions import Greatest, Now
from django.db.utils import InterfaceError, OperationalError

from jobs import batches, broker, lifecycle
from jobs.models import Batch, Job

log = structlog.get_logger(__name__)

CHANNEL = "weighbridge:ended"
LOOK_SECONDS = 0.5  # between two questions to the database
MOST, MOST_PER_CLIENT = 2000, 1000  # who wait at once in one process


@dataclass(frozen=True, eq=False)
class Waiter:
    """Waits for one subject, a job or a batch. `ended` is done once it has ended, or was found gone; its result says nothing."""

    subject_id: UUID
    client_id: int
    ended: "Future[None]" = field(default_factory=Future)

    def end(self) -> None:
        """More than one may come to know of an end at once: the listener, and who looks as it begins to wait."""
        with suppress(InvalidStateError):
            self.ended.set_result(None)


class Waiters:
    """Everybody who waits in this process, and the thread that listens for them. Thread-safe."""

    def __init__(self, most: int = MOST, most_per_client: int = MOST_PER_CLIENT) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._lock = threading.Lock()
        self._waiting: dict[UUID, set[Waiter]] = defaultdict(set)
        self._per_client: Counter[int] = Counter()
        self._listener: threading.Thread | None = None
        self._stopped = threading.Event()

    def join(self, subject_id: UUID, client_id: int) -> Waiter | None:
        """None if too many wait here already. Whoever joins leaves."""
        with self._lock:
            if self._per_client.total() >= self._most or self._per_client[client_id] >= self._most_per_client:
                return None
            waiter = Waiter(subject_id, client_id)
            self._waiting[subject_id].add(waiter)
            self._per_client[client_id] += 1
            self._listen()
            return waiter

    def leave(self, waiter: Waiter) -> None:
        with self._lock:
            of_its_subject = self._waiting.get(waiter.subject_id, set())
            if waiter in of_its_subject:
                of_its_subject.discard(waiter)
                self._per_client[waiter.client_id] -= 1
            if not of_its_subject:
                self._waiting.pop(waiter.subject_id, None)

    def __len__(self) -> int:
        with self._lock:
            return self._per_client.total()

    def stop(self) -> None:
        """Let go of the thread and its connections; for tests."""
        self._stopped.set()
        if self._listener is not None:
            self._listener.join(5)

    def _ended(self, subjects: Iterable[UUID]) -> None:
        with self._lock:
            told = [waiter for subject_id in subjects for waiter in self._waiting.get(subject_id, ())]
        for waiter in told:
            waiter.end()

    def _awaited(self) -> list[UUID]:
        with self._lock:
            return list(self._waiting)

    def _listen(self) -> None:
        if self._listener is None or not self._listener.is_alive():
            self._listener = threading.Thread(target=self._listen_for_ever, name="notices", daemon=True)
            self._listener.start()

    def _listen_for_ever(self) -> None:
        notices, looked_at = _Notices(), 0.0
        while not self._stopped.is_set():
            try:
                self._ended(notices.wait(LOOK_SECONDS))
                if (awaited := self._awaited()) and time.monotonic() - looked_at >= LOOK_SECONDS:
                    self._ended(_no_longer_live(awaited))
                    looked_at = time.monotonic()
            except Exception:  # nobody else would listen for all who wait here
                log.exception("listening_failed")
                self._stopped.wait(LOOK_SECONDS)
        notices.close()
        connection.close()


class _Notices:
    """The channel, as long as there is one."""

    def __init__(self) -> None:
        self._subscription: Any = None

    def wait(self, seconds: float) -> list[UUID]:
        """What was said, as soon as anything is, or nothing after so many seconds."""
        try:
            if self._subscription is None:
                self._subscription = broker.ask(_subscribed)
            return [subject_id for subject_id in map(_subject_of, self._messages(seconds)) if subject_id]
        except (*broker.AWAY, OSError):
            self._subscription = None
            time.sleep(seconds)
            return []

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

    def _messages(self, seconds: float) -> Iterator[Any]:
        message = self._subscription.get_message(ignore_subscribe_messages=True, timeout=seconds)
        while message is not None:
            yield message
            message = self._subscription.get_message(ignore_subscribe_messages=True, timeout=0)


def _subscribed(client: Any) -> Any:
    subscription = client.pubsub()
    subscription.subscribe(CHANNEL)
    return subscription


def _subject_of(message: Any) -> UUID | None:
    try:
        return UUID(message["data"].decode(errors="replace"))
    except ValueError:
        return None  # anybody may publish on a channel


def _no_longer_live(subjects: Collection[UUID]) -> set[UUID]:
    """Those that have ended, or are gone; none while the database is away."""
    try:
        close_old_connections()
        live = Job.objects.filter(pk__in=subjects, finished_at=None).order_by().values_list("pk", flat=True)
        unsealed = Batch.objects.filter(pk__in=subjects, sealed_at=None).order_by().values_list("pk", flat=True)
        return set(subjects) - set(live.union(unsealed, all=True))
    except (OperationalError, InterfaceError):
        connection.close()
        return set()


WAITERS = Waiters()


def mark(job_id: UUID, seconds: float) -> bool:
    """Say that somebody waits for the job; False if it has ended already, and nobody will be told."""
    until = Greatest("awaited_until", Now() + timedelta(seconds=seconds))
    return Job.objects.filter(pk=job_id, finished_at=None).update(awaited_until=until) == 1


def mark_batch(batch_id: UUID, seconds: float) -> bool:
    """The same of a batch, and of its seal."""
    until = Greatest("awaited_until", Now() + timedelta(seconds=seconds))
    return Batch.objects.filter(pk=batch_id, sealed_at=None).update(awaited_until=until) == 1


def tell_of_ends() -> None:
    """From here on this process says so when it ends a job, or seals a batch, that somebody waits for."""
    lifecycle.ended.connect(_tell, dispatch_uid="notify")
    batches.sealed.connect(_tell_of_seal, dispatch_uid="notify")


def _tell(sender: object, job_id: UUID, awaited: bool, **more: Any) -> None:
    if awaited:
        transaction.on_commit(lambda: _publish(job_id))


def _tell_of_seal(sender: object, batch_id: UUID, awaited: bool, **more: Any) -> None:
    if awaited:
        _publish(batch_id)


def _publish(ended_id: UUID) -> None:
    """Never raises for Redis: who waits looks for himself soon."""
    try:
        broker.ask(lambda client: client.publish(CHANNEL, str(ended_id)))
    except broker.AWAY as error:
        log.info("end_not_told", id=str(ended_id), error=type(error).__name__)
