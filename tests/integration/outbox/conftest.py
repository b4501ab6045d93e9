from collections.abc import Iterator

import pytest

from jobs.submit import submit
from tests.in_process_api import PROBE
from tests.outbox_calls import HEAVY


@pytest.fixture
def full() -> Iterator[None]:
    """The heavy class has no room until the fixture's jobs are gone."""
    for _ in range(8):
        submit(PROBE, HEAVY)
    yield
