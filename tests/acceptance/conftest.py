"""A whole stack on this machine: real PostgreSQL, real Valkey, real web and worker processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api

# The short counts: everything that waits for time waits a fraction of the defaults.
SHORT = {
    "DATABASE_URL": "",
    "REDIS_URL": "",
    "WEIGHBRIDGE_LEASE_SECONDS": "3",
    "WEIGHBRIDGE_LIMIT_GRACE_SECONDS": "0.5",
    "WEIGHBRIDGE_SWEEP_SECONDS": "0.2",
    "WEIGHBRIDGE_BEAT_SECONDS": "1",
    "WEIGHBRIDGE_STOP_GRACE_SECONDS": "5",
    "WEIGHBRIDGE_HEAVY_PROCESSES": "2",
    "WEIGHBRIDGE_JOB_MODULES": "tests.acceptance.job_types",
}
QUIET = ("flower",)  # few tests need it


@pytest.fixture(scope="module")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """start_stack(without=…, WEIGHBRIDGE_…="…") starts one with its own servers; all are stopped after the module."""
    with ExitStack() as running:

        def start(without: tuple[str, ...] = QUIET, **environ: str) -> Stack:
            data_dir = tmp_path_factory.mktemp("stack") / "data"
            return running.enter_context(Stack(data_dir, {**SHORT, **environ}, without=without))

        yield start


@pytest.fixture(scope="module")
def stack(start_stack: Callable[..., Stack]) -> Stack:
    """One stack with short times for all tests of a module."""
    return start_stack()


@pytest.fixture
def api(stack: Stack) -> Iterator[Api]:
    with Api(stack.url, stack.key) as caller:
        yield caller


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")
