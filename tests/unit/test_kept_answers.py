"""Answers that are kept for a second: one caller asks, and nobody queues behind a lock while the database is silent."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from jobs import kept
from jobs.kept import Kept
from tests.waiting import eventually


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Database:
    """Answers 1, 2, … as soon as it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.error: Exception | None = None

    def __call__(self, cost_class: str) -> int:
        self.asked.append(cost_class)
        answer = len(self.asked)
        assert self.may_answer.wait(30)
        if self.error is not None:
            raise self.error
        return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(kept, "time", clock)
    return clock


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def _hanging(kept: Any, database: Database, threads: ThreadPoolExecutor) -> "Future[Any]":
    """A caller that asks and gets no answer yet."""
    database.may_answer.clear()
    asked = len(database.asked)
    asks = threads.submit(kept, "light")
    eventually(lambda: len(database.asked) == asked + 1, 30)
    return asks


def test_while_one_asks_the_others_get_the_old_answer(clock: Clock, threads: ThreadPoolExecutor) -> None:
    database = Database()
    kept = Kept(database)
    assert kept("light") == 1
    clock.now += 1.1
    asks = _hanging(kept, database, threads)
    clock.now += 60
    assert [kept("light") for _ in range(3)] == [1, 1, 1]
    database.may_answer.set()
    assert asks.result(30) == 2
    assert kept("light") == 2
    assert database.asked == ["light", "light"]


def test_without_an_old_answer_all_wait_for_the_one_query(clock: Clock, threads: ThreadPoolExecutor) -> None:
    database = Database()
    kept = Kept(database)
    asks = _hanging(kept, database, threads)
    others = [threads.submit(kept, "light") for _ in range(3)]
    database.may_answer.set()
    assert [call.result(30) for call in (asks, *others)] == [1, 1, 1, 1]
    assert database.asked == ["light"]


def test_a_class_that_gets_no_answer_delays_no_other(clock: Clock, threads: ThreadPoolExecutor) -> None:
    database = Database()
    kept = Kept(lambda name: database(name) if name == "light" else 0)
    asks = _hanging(kept, database, threads)
    assert kept("heavy") == 0
    database.may_answer.set()
    asks.result(30)


def test_a_failure_is_told_to_whoever_waits_and_not_kept(clock: Clock, threads: ThreadPoolExecutor) -> None:
    database = Database()
    database.error = OSError("away")
    kept = Kept(database)
    asks = _hanging(kept, database, threads)
    waits = threads.submit(kept, "light")
    database.may_answer.set()
    for call in (asks, waits):
        with pytest.raises(OSError, match="away"):
            call.result(30)
    database.error = None
    assert isinstance(kept("light"), int)
