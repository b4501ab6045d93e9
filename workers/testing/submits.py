"""A pytest plugin: what code under test submits is run at once, in its own process. `pytest_plugins = ["workers.testing.submits"]`.

def test_a_paid_order_has_a_route(run_at_once):
    pay(order)
    assert run_at_once.ran[0].result == {"length": 7544.4}

Each job has one attempt, as `workers.testing.run` makes it: no broker, no limits but on a FakeClock. A job asked for with `on_commit` runs when the
transaction is committed, which in Django's TestCase takes `captureOnCommitCallbacks(execute=True)`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from workers.testing.at_once import RunAtOnce


@pytest.fixture
def run_at_once(monkeypatch: pytest.MonkeyPatch) -> "Iterator[RunAtOnce]":
    """As `submitted` of jobs.testing, with `ran` beside `jobs`: a workers.testing.at_once.RunAtOnce."""
    from jobs import submit
    from workers.testing.at_once import RunAtOnce

    running = RunAtOnce()
    monkeypatch.setattr(submit, "door_instead", running)
    monkeypatch.setattr(submit, "storage_instead", running.keep)
    yield running
