"""A stack that tests may hurt; each leaves it whole again."""

from collections.abc import Iterator

import pytest

from stack.local import Stack
from tests.acceptance.conftest import QUIET, short_environment
from tests.acceptance.faults.times import SWEEP_SECONDS


@pytest.fixture(scope="package")
def hurt_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = short_environment(
        # Slow enough to tell what a sweep did from what a wake-up did.
        WEIGHBRIDGE_SWEEP_SECONDS=str(SWEEP_SECONDS),
        WEIGHBRIDGE_HEAVY_MAX_WAITING="400",
        WEIGHBRIDGE_HEAVY_MAX_WAIT_SECONDS="120",
    )
    with Stack(tmp_path_factory.mktemp("hurt") / "data", environ, without=QUIET) as running:
        yield running
    running.erase()


@pytest.fixture
def stack(hurt_stack: Stack) -> Stack:
    """Whole at the start of each test."""
    hurt_stack.wait_ready(60)
    return hurt_stack
