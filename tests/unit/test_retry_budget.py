"""Retries of a node are at most ten, or a fifth of its attempts of the last minute (P25)."""

import os
from collections.abc import Iterator
from multiprocessing import get_context

import pytest

from workers.budget import FD_VARIABLE, RetryBudget


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def budget(clock: _Clock) -> Iterator[RetryBudget]:
    made = RetryBudget.create(clock)
    yield made
    os.close(made.fd)


def _spent(budget: RetryBudget, tries: int) -> int:
    return sum(budget.spend() for _ in range(tries))


def test_ten_are_always_there(budget: RetryBudget) -> None:
    assert _spent(budget, 30) == 10


def test_a_fifth_of_many_attempts(budget: RetryBudget) -> None:
    for _ in range(100):
        budget.count_attempt()
    assert _spent(budget, 100) == 20


def test_what_is_a_minute_old_counts_no_more(budget: RetryBudget, clock: _Clock) -> None:
    assert _spent(budget, 10) == 10
    clock.now += 59
    assert not budget.spend()
    clock.now += 1
    assert _spent(budget, 30) == 10


def test_it_is_exact_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = RetryBudget.create()
    monkeypatch.setenv(FD_VARIABLE, str(shared.fd))
    with get_context("fork").Pool(4) as pool:
        counts = pool.map(_spend_inherited, [50] * 4)
    assert sum(counts) == 10
    os.close(shared.fd)


def _spend_inherited(tries: int) -> int:
    return _spent(RetryBudget.inherited(), tries)
