"""A pytest plugin for tests of code that submits jobs: `pytest_plugins = ["jobs.testing"]` in your conftest.

def test_a_paid_order_is_routed(submitted):
    pay(order)
    assert [(job.type, job.params) for job in submitted.jobs] == [("routes.optimize", {"stops": 12})]

Nothing reaches admission, so neither a broker nor, unless your own code asks for it, a database is needed. `workers.testing.submits` has a
fixture that runs the handlers as well.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # Django may not be set up when pytest loads its plugins
    from jobs.testing.captured import Submitted


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Submitted]":
    """What `jobs.submit.submit` was asked for in this test: a jobs.testing.captured.Submitted."""
    from jobs import submit
    from jobs.testing.captured import Submitted

    captured = Submitted()
    monkeypatch.setattr(submit, "door_instead", captured)
    monkeypatch.setattr(submit, "storage_instead", captured.keep)
    yield captured
