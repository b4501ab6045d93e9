"""A service that hangs takes the others with it when all share one pool, and cannot when it has its own.

Three services, of which one hangs; ten clients at once, each with an `http.aggregate` job that asks all three and waits
1.2 s, three times; a class with ten processes. The figures of a quiet machine are in docs/slow-services.md;
`pytest -s` prints those of this run.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import pytest

from stack.local import Stack
from tests.acceptance.slow_services import Counts
from tests.acceptance.team.conftest import FAST, LIGHT_PROCESSES, ONE_POOL, TWO_POOLS, Pools, service_of
from tests.api_client import Api

CLIENTS, ROUNDS = LIGHT_PROCESSES, 3
DEADLINE_SECONDS = 1.2
LATE_SECONDS = 0.8  # an answer may come so long after the deadline, on a machine that is busy with other tests


@dataclass(frozen=True)
class Found:
    """The jobs of one experiment, and the most requests at once that each pool's services saw together."""

    jobs: list[dict[str, Any]]
    most: dict[str, int]

    def errors(self, *services: str) -> list[str | None]:
        results = [job["result"]["results"] for job in self.jobs]
        return [result[name].get("error", {}).get("code") for result in results for name in services]

    def failed_percent(self, *services: str) -> float:
        errors = self.errors(*services)
        return 100 * sum(error is not None for error in errors) / len(errors)

    @property
    def seconds(self) -> list[float]:
        """From the first line of each body to its last."""
        return sorted(job["timings"]["run_seconds"] for job in self.jobs)

    def __str__(self) -> str:
        return (
            f"{len(self.jobs)} jobs; fast calls failed: {self.failed_percent(*FAST):.0f} %; slow calls failed: "
            f"{self.failed_percent('reviews'):.0f} %; answers after {self.seconds[0]:.3f} to {self.seconds[-1]:.3f} s; "
            f"most requests at once: {self.most}"
        )


@dataclass(frozen=True)
class Laboratory:
    stack: Stack
    counts: dict[str, Counts]

    def run(self, pools: Pools) -> Found:
        together = Barrier(CLIENTS)
        with ThreadPoolExecutor(CLIENTS) as clients:
            rounds = clients.map(lambda _: self._client(pools, together), range(CLIENTS))
            jobs = [job for some in rounds for job in some]
        found = Found(jobs, {pool: self.counts[pool].most for pool, _ in pools.values()})
        print(f"\n{pools}\n{found}")
        return found

    def _client(self, pools: Pools, together: Barrier) -> list[dict[str, Any]]:
        calls = {name: {"service": service_of(name, pool)} for name, (pool, _) in pools.items()}
        params = {"calls": calls, "deadline_seconds": DEADLINE_SECONDS}
        jobs = []
        with Api(self.stack.url, self.stack.key) as api:
            for _ in range(1 + ROUNDS):
                together.wait(60)
                jobs.append(api.ended(api.submit("http.aggregate", params)))
        return jobs[1:]  # a process's first calls prepare it for all others


@pytest.fixture
def laboratory(stack: Stack, pools_asked: dict[str, Counts]) -> Laboratory:
    return Laboratory(stack, pools_asked)


def test_with_two_pools_the_fast_services_do_not_feel_the_slow_one(laboratory: Laboratory) -> None:
    found = laboratory.run(TWO_POOLS)
    assert {job["state"] for job in found.jobs} == {"succeeded"}
    assert found.failed_percent(*FAST) == 0
    assert set(found.errors("reviews")) == {"deadline_exceeded"}
    assert found.seconds[0] >= DEADLINE_SECONDS
    assert found.seconds[-1] <= DEADLINE_SECONDS + LATE_SECONDS
    assert found.most["slow"] == 3
    assert 1 < found.most["fast"] <= 6


def test_with_one_pool_the_slow_service_takes_the_fast_ones_with_it(laboratory: Laboratory) -> None:
    """At least a tenth of the fast calls; half is usual. The bound holds here too."""
    found = laboratory.run(ONE_POOL)
    assert found.failed_percent(*FAST) >= 10
    assert found.most["shared"] == 5
