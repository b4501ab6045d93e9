"""One stack whose classes are asked for far more than they can do."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stack.local import Stack
from tests.acceptance.clients import make_client
from tests.acceptance.conftest import QUIET, short_environment
from tests.acceptance.overload.callers import Caller

SLOTS = 4  # of each class; its jobs only sleep
WAITING = 40
MAX_WAIT_SECONDS = 6


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`light` is bounded by its work as it is by default; `heavy` has a bound that is never reached."""
    environ = short_environment(
        WEIGHBRIDGE_WEB_PROCESSES="2",
        WEIGHBRIDGE_LIGHT_PROCESSES=str(SLOTS),
        WEIGHBRIDGE_HEAVY_PROCESSES=str(SLOTS),
        WEIGHBRIDGE_LIGHT_MAX_WAITING=str(WAITING),
        WEIGHBRIDGE_HEAVY_MAX_WAITING=str(WAITING),
        WEIGHBRIDGE_LIGHT_MAX_WAIT_SECONDS=str(MAX_WAIT_SECONDS),
        WEIGHBRIDGE_HEAVY_MAX_WAIT_SECONDS=str(MAX_WAIT_SECONDS),
        WEIGHBRIDGE_HEAVY_MAX_BACKLOG_SECONDS="86400",
    )
    with Stack(tmp_path_factory.mktemp("overload") / "data", environ, without=QUIET) as running:
        yield running
    running.erase()


@pytest.fixture(scope="package")
def large(stack: Stack) -> Iterator[Caller]:
    with _a_client(stack, "large") as caller:
        yield caller


@pytest.fixture(scope="package")
def crowd(stack: Stack) -> Iterator[list[Caller]]:
    """Clients who come when they are told to; `large` mostly does not, and so little would be kept for it."""
    with ExitStack() as open_ones:
        yield [open_ones.enter_context(_a_client(stack, f"crowd-{number}")) for number in range(5)]


@pytest.fixture(scope="package")
def small(stack: Stack) -> Iterator[Caller]:
    with _a_client(stack, "small") as caller:
        yield caller


def _a_client(stack: Stack, name: str) -> Caller:
    return Caller(stack.url, make_client(stack, name), name)
