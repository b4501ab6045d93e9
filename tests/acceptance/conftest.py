"""A whole stack on this machine: real PostgreSQL, real Valkey, real web and worker processes."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stack.local import Stack
from stack.ports import free_port
from tests.acceptance import figures, processes
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
UNSWEPT = (*QUIET, "beat", "worker-control")  # for tests that need no sweep

logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per request would bury what failed


def short_environment(**environ: str) -> dict[str, str]:
    """To be laid over our own environment, whose settings are taken away; the port is nobody else's."""
    inherited = {name: "" for name in os.environ if name.startswith("WEIGHBRIDGE_")}
    return {**inherited, **SHORT, "WEIGHBRIDGE_PORT": str(free_port()), **environ}


@pytest.fixture(scope="module")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """start_stack(without=…, WEIGHBRIDGE_…="…") starts one with its own servers; all are stopped after the module."""
    with ExitStack() as running:

        def start(without: tuple[str, ...] = QUIET, settings_module: str | None = None, **environ: str) -> Stack:
            data_dir = tmp_path_factory.mktemp("stack") / "data"
            stack = Stack(data_dir, short_environment(**environ), settings_module, without)
            running.callback(stack.erase)
            return running.enter_context(stack)

        yield start


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    """A running stack, and its /metrics from before anything happened."""
    data_dir = tmp_path_factory.mktemp("shared") / "data"
    with Stack(data_dir, short_environment()) as running:
        yield running, figures.text(running)
    assert processes.that_know(data_dir) == {}, "a stack that was stopped leaves no process"
    running.erase()


@pytest.fixture(scope="session")
def stack(shared: tuple[Stack, str]) -> Stack:
    """One stack with short times, and Flower, for all tests that leave it as they found it."""
    return shared[0]


@pytest.fixture(scope="session")
def metrics_at_start(shared: tuple[Stack, str]) -> str:
    return shared[1]


@pytest.fixture
def api(stack: Stack) -> Iterator[Api]:
    with Api(stack.url, stack.key) as caller:
        yield caller


@pytest.fixture
def diary(tmp_path: Path) -> Iterator[Diary]:
    """Its gate is opened in the end, so that a test that failed leaves no body waiting."""
    diary = Diary(tmp_path / "diary")
    yield diary
    diary.open_gate()
