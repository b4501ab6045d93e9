"""A keeper's clockwork: it wakes what comes back at once, and survives whatever one of its rounds raises (P14, P33)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import nodes, sweeps, wakeups
from jobs.models import WorkerNode
from tests import job_rows
from tests.waiting import eventually
from workers.clockwork import Clockwork
from workers.slots import SharedSlots

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clockwork(node: WorkerNode, tmp_path: Path) -> Iterator[Clockwork]:
    known = nodes.Node(node.pk, node.hostname, node.pid, node.cost_class, node.processes, tuple(node.types))
    clockwork = Clockwork(known, SharedSlots.create(2), tmp_path)
    yield clockwork
    clockwork.stop()
    clockwork.join(10)
    assert not clockwork.is_alive()


def test_jobs_that_came_back_are_woken_long_before_the_next_round(clockwork: Clockwork, settings: Any) -> None:
    settings.WEIGHBRIDGE_SWEEP_SECONDS = 600.0
    clockwork.start()
    job_rows.a_queued_job()
    clockwork.jobs_came_back()
    eventually(lambda: wakeups.queue_length("light") == 1)


def test_what_came_back_as_the_keeper_stopped_is_woken_too(clockwork: Clockwork, settings: Any) -> None:
    settings.WEIGHBRIDGE_SWEEP_SECONDS = 600.0
    clockwork.start()
    job_rows.a_queued_job()
    clockwork.stop()
    clockwork.join(10)
    assert wakeups.queue_length("light") == 1


def test_a_round_that_fails_is_followed_by_the_next(clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    def broken(overdue_intervals: float) -> None:
        rounds.append("a round")
        clockwork.jobs_came_back()
        raise KeyError("a fault of its own")

    monkeypatch.setattr(sweeps, "run_due", broken)
    clockwork.start()
    eventually(lambda: len(rounds) >= 3)
    assert clockwork.is_alive()


def test_a_restart_of_one_host_does_not_keep_another_from_its_own(node: WorkerNode, tmp_path: Path) -> None:
    for hostname in ("one", "other"):
        known = nodes.Node(node.pk, hostname, node.pid, node.cost_class, node.processes, ())
        Clockwork(known, SharedSlots.create(1), tmp_path)._restarts.touch()
    assert len(list(tmp_path.iterdir())) == 2
