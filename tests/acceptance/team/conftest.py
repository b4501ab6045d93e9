"""A stack with a team's own settings: their classes, databases and services; children of one class live for one job."""

import json
from collections.abc import Iterator

import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.conftest import QUIET, short_environment
from tests.acceptance.execution.conftest import MODULES
from tests.acceptance.slow_services import Counts, Services, answering, hanging
from tests.acceptance.team.commands import SETTINGS, manage

SLOTS = 2  # of class scales
LIGHT_PROCESSES = 10
WORK_SECONDS = 0.1  # of a fast service
FAST = ("prices", "stock")
Pools = dict[str, tuple[str, int]]  # by service: its pool and how many places that has
ONE_POOL: Pools = dict.fromkeys((*FAST, "reviews"), ("shared", 5))
TWO_POOLS: Pools = {"prices": ("fast", 6), "stock": ("fast", 6), "reviews": ("slow", 3)}


def service_of(name: str, pool: str) -> str:
    return f"{name}-{pool}"


@pytest.fixture(scope="package")
def pools_asked() -> dict[str, Counts]:
    """How many requests the services of each pool have together."""
    return {pool: Counts() for pools in (ONE_POOL, TWO_POOLS) for pool, _ in pools.values()}


@pytest.fixture(scope="package")
def services(pools_asked: dict[str, Counts]) -> Iterator[dict[str, dict[str, object]]]:
    """As settings name them: each of three services once in each arrangement of pools. One hangs."""
    behaviours = {name: answering(WORK_SECONDS) for name in FAST} | {"reviews": hanging}
    with Services() as running:
        yield {
            service_of(name, pool): {
                "base_url": running.add(behaviours[name], pools_asked[pool])[0],
                "pool": pool,
                "places": places,
            }
            for pools in (ONE_POOL, TWO_POOLS)
            for name, (pool, places) in pools.items()
        }


@pytest.fixture(scope="package")
def teams_stack(tmp_path_factory: pytest.TempPathFactory, services: dict[str, dict[str, object]]) -> Iterator[Stack]:
    environ = short_environment(
        TEST_SERVICES=json.dumps(services),
        WEIGHBRIDGE_JOB_MODULES=MODULES,
        WEIGHBRIDGE_SCALES_PROCESSES=str(SLOTS),
        WEIGHBRIDGE_LIGHT_PROCESSES=str(LIGHT_PROCESSES),
        WEIGHBRIDGE_HEAVY_MAX_WAITING="1000",
        WEIGHBRIDGE_HEAVY_MAX_WAIT_SECONDS="600",
    )
    with Stack(tmp_path_factory.mktemp("team") / "data", environ, SETTINGS, QUIET) as running:
        records.execute(running.database_url, "CREATE DATABASE archive")
        assert manage(running, "migrate", "--noinput", "--database=archive").returncode == 0
        yield running
    running.erase()


@pytest.fixture
def stack(teams_stack: Stack) -> Stack:
    return teams_stack
