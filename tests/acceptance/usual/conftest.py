"""One stack for all tests that leave it as they found it."""

from collections.abc import Iterator

import pytest

from stack.local import Stack
from tests import processes
from tests.acceptance import figures
from tests.acceptance.conftest import short_environment


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    """A running stack, and its /metrics from before anything happened."""
    data_dir = tmp_path_factory.mktemp("shared") / "data"
    with Stack(data_dir, short_environment()) as running:
        yield running, figures.text(running)
    assert processes.that_know(data_dir) == {}, "a stack that was stopped leaves no process"
    running.erase()


@pytest.fixture(scope="package")
def stack(shared: tuple[Stack, str]) -> Stack:
    """One stack with short times, and Flower, for all tests that leave it as they found it."""
    return shared[0]


@pytest.fixture(scope="package")
def metrics_at_start(shared: tuple[Stack, str]) -> str:
    return shared[1]
