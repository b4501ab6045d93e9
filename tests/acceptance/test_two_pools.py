"""A service that hangs takes the others with it when all share one pool, and cannot when it has its own.

Three services, of which one hangs; ten clients at once, each a process that fans out to all three with 1.2 s. The
figures of a quiet machine are in docs/slow-services.md; `pytest -s` prints those of this run.
"""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.slow_services import Counts, Services, answering, hanging
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline
from workers.fanout import fan_out
from workers.http import Call, Http

CLIENTS, ROUNDS = 10, 3
DEADLINE_SECONDS = 1.2
LATE_SECONDS = 0.8  # an answer may come so long after the deadline, on a machine that is busy with other tests
WORK_SECONDS = 0.03  # of a fast service
START_SECONDS = 20.0
FAST = ("prices", "stock")
ONE_POOL = dict.fromkeys((*FAST, "reviews"), ("shared", 5))
TWO_POOLS = {"prices": ("fast", 6), "stock": ("fast", 6), "reviews": ("slow", 3)}
Pools = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Answer:
    """What one fan-out gave: seconds it took, and an error code by service; None is an answer."""

    seconds: float
    errors: dict[str, str | None]


@dataclass(frozen=True)
class Found:
    """All answers, and the most requests at once that each pool's services saw together."""

    answers: list[Answer]
    most: dict[str, int]

    def failed_percent(self, *names: str) -> float:
        errors = [answer.errors[name] for answer in self.answers for name in names]
        return 100 * sum(error is not None for error in errors) / len(errors)

    def __str__(self) -> str:
        seconds = sorted(answer.seconds for answer in self.answers)
        return (
            f"{len(self.answers)} fan-outs; fast calls failed: {self.failed_percent(*FAST):.0f} %; slow calls failed: "
            f"{self.failed_percent('reviews'):.0f} %; answers after {seconds[0]:.3f} to {seconds[-1]:.3f} s; "
            f"most requests at once: {self.most}"
        )


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[Pools], Found]:
    def run(pools: Pools) -> Found:
        counts = {pool: Counts() for pool, _ in pools.values()}
        with Services() as services:
            behaviours = {name: answering(WORK_SECONDS) for name in FAST} | {"reviews": hanging}
            urls = {name: services.add(behaviours[name], counts[pool])[0] for name, (pool, _) in pools.items()}
            calls = {
                name: Call(urls[name], bulkhead=Bulkhead(tmp_path, pool, places))
                for name, (pool, places) in pools.items()
            }
            answers = _ten_clients(calls)
        found = Found(answers, {pool: counted.most for pool, counted in counts.items()})
        print(f"\n{pools}\n{found}")
        return found

    return run


def _ten_clients(calls: dict[str, Call]) -> list[Answer]:
    """Each client is a process, forked as a worker's are; they begin together once all are there."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start, answers = context.Barrier(CLIENTS), context.Queue()
    clients = [context.Process(target=_client, args=(calls, start, answers), daemon=True) for _ in range(CLIENTS)]
    try:
        for client in clients:
            client.start()
        return [answers.get(timeout=START_SECONDS) for _ in range(CLIENTS * ROUNDS)]
    finally:
        for client in clients:
            client.kill()  # it has put its last answer, or it is the failure
            client.join()


def _client(calls: dict[str, Call], start: Any, answers: Any) -> None:
    # A worker process that has made a call before: the first imports what it needs.
    fan_out({"nobody": Call("http://127.0.0.1:1")}, 30.0, http=Http(Deadline.after(30), "first", job_retries=True))
    start.wait(START_SECONDS)
    for _ in range(ROUNDS):
        started_at = time.monotonic()
        http = Http(Deadline.after(30), "two-pools", job_retries=True)
        outcomes = fan_out(calls, DEADLINE_SECONDS, http=http)
        seconds = time.monotonic() - started_at
        answers.put(Answer(seconds, {name: outcome.error for name, outcome in outcomes.items()}))


def test_with_two_pools_the_fast_services_do_not_feel_the_slow_one(experiment):
    found = experiment(TWO_POOLS)
    assert found.failed_percent(*FAST) == 0
    assert {answer.errors["reviews"] for answer in found.answers} == {"deadline_exceeded"}
    for answer in found.answers:
        assert DEADLINE_SECONDS <= answer.seconds <= DEADLINE_SECONDS + LATE_SECONDS
    assert found.most["slow"] == 3
    assert 1 < found.most["fast"] <= 6


def test_with_one_pool_the_slow_service_takes_the_fast_ones_with_it(experiment):
    """At least a tenth of the fast calls; half is usual. The bound holds here too."""
    found = experiment(ONE_POOL)
    assert found.failed_percent(*FAST) >= 10
    assert found.most["shared"] == 5
