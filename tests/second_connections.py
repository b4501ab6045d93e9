"""Threads that have a database connection of their own, and a look at who waits for whom."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection, transaction

from tests.waiting import eventually

T = TypeVar("T")


class Elsewhere:
    """Runs calls one after the other in one thread, on that thread's own connection."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def start(self, call: Callable[[], T]) -> "Future[T]":
        return self._pool.submit(call)

    def run(self, call: Callable[[], T], within_seconds: float = 20.0) -> T:
        return self.start(call).result(within_seconds)

    def backend_pid(self) -> int:
        return self.run(backend_pid)

    def close(self) -> None:
        self.run(lambda: connection.close())  # looked up there, not here
        self._pool.shutdown()


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    other = Elsewhere()
    try:
        yield other
    finally:
        other.close()


def backend_pid() -> int:
    """The server process behind this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def waits_for_a_lock(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])


def begun_behind(first: Callable[[], object], other: Elsewhere, second: Callable[[], T]) -> "Future[T]":
    """`first` here in a transaction; `second` elsewhere, started before our commit and seen to wait for it."""
    pid = other.backend_pid()
    with transaction.atomic():
        first()
        waiting = other.start(second)
        eventually(lambda: waits_for_a_lock(pid))
    return waiting


@contextmanager
def class_locked(cost_class: str, by: Elsewhere) -> Iterator[None]:
    """Another connection holds the admission lock of the class, in an open transaction."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:' || %s, 0))", [cost_class])
            held.set()
            release.wait(30)

    holding = by.start(hold)
    try:
        assert held.wait(10)
        yield
    finally:
        release.set()
        holding.result(10)


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Each call in a thread with its own connection, released together; their results in order."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        try:
            gate.wait(10)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(run, call) for call in calls]]
