"""A keeper's beat, with a real child: one job's row that somebody holds does not cost the others their leases (P16)."""

import os
import selectors
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import InterfaceError, OperationalError

from jobs import leases, lifecycle, telemetry, wakeups
from jobs.lifecycle import Claim, Claimant
from jobs.models import Attempt, Job, WorkerNode
from tests import job_rows
from tests.second_connections import Elsewhere
from tests.waiting import eventually
from workers import kernel
from workers.aftermath import Aftermath
from workers.budget import RetryBudget
from workers.custody import Custody
from workers.keeper import Keeper
from workers.slots import OwnSlot, SharedSlots, _Field

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def parent() -> Iterator["subprocess.Popen[bytes]"]:
    """It stands for Celery: a process with one child."""
    process = subprocess.Popen(["sh", "-c", "trap '' USR2; sleep 60 & wait"])
    child = eventually(lambda: next(iter(kernel.children_of(process.pid)), None))
    assert child is not None
    yield process
    held = kernel.Child.hold(child)
    if held is not None:
        held.kill()
    process.kill()
    process.wait()


def _claimed_by(node: WorkerNode, pid: int, started: int) -> Claim:
    job_rows.a_queued_job()
    claimed = lifecycle.claim(Claimant(node.pk, pid, started), "light", [job_rows.TYPE], 30, 5)
    assert claimed is not None
    return claimed


@pytest.fixture
def told() -> list[str]:
    """What the keeper's clockwork was told."""
    return []


@pytest.fixture
def slots() -> SharedSlots:
    return SharedSlots.create(1)


@pytest.fixture
def aftermath(tmp_path: Path, told: list[str]) -> Aftermath:
    return Aftermath(tmp_path, RetryBudget.create(), lambda: 0, lambda: told.append("came back"))


@pytest.fixture
def selector() -> Iterator[selectors.DefaultSelector]:
    with selectors.DefaultSelector() as selector:
        yield selector


@pytest.fixture
def custody(aftermath: Aftermath, slots: SharedSlots, selector: selectors.DefaultSelector) -> Custody:
    return Custody(job_rows.a_node().pk, slots, aftermath, selector)


def _beat(custody: Custody, parent: "subprocess.Popen[bytes]") -> tuple[Claim, Claim]:
    """A lease of the living child and one of a child that has vanished."""
    node = WorkerNode.objects.get()
    (pid,) = kernel.children_of(parent.pid)
    child = kernel.Child.hold(pid)
    assert child is not None
    living = _claimed_by(node, pid, child.started)
    child.let_go()
    vanished = _claimed_by(node, 1_999_999, 1)
    Job.objects.update(lease_until=Now() + timedelta(seconds=5))
    return living, vanished


def _renewed(claimed: Claim) -> bool:
    return Job.objects.filter(pk=claimed.job_id, lease_until__gt=Now() + timedelta(seconds=20)).exists()


def test_a_beat_renews_who_lives_and_loses_who_has_vanished(
    custody: Custody, parent: "subprocess.Popen[bytes]", other: Elsewhere
) -> None:
    living, vanished = _beat(custody, parent)
    other.run(lambda: custody.look(parent.pid))
    assert _renewed(living)
    assert job_rows.read(living.job_id).state == "running"
    assert (job_rows.read(vanished.job_id).state, job_rows.read(vanished.job_id).lost) == ("queued", 1)


def test_a_child_that_is_not_listed_has_not_vanished(
    custody: Custody, parent: "subprocess.Popen[bytes]", other: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    living, _ = _beat(custody, parent)
    monkeypatch.setattr(kernel, "children_of", lambda pid: set())
    other.run(lambda: custody.look(parent.pid))
    assert _renewed(living)
    assert job_rows.read(living.job_id).state == "running"


def test_a_child_that_does_not_heed_its_cancel_is_ended_as_cancelled_not_as_lost(
    custody: Custody, parent: "subprocess.Popen[bytes]", other: Elsewhere, slots: SharedSlots, settings: Any
) -> None:
    settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS = 0.0
    living, _ = _beat(custody, parent)
    (pid,) = kernel.children_of(parent.pid)
    _works_on(slots, pid, living.token)
    lifecycle.cancel(living.job_id)
    # The first passes the cancel on, to a process that ignores it; the second ends it; a third would find it vanished.
    for _ in range(3):
        other.run(lambda: custody.look(parent.pid))
    assert job_rows.read(living.job_id).state == "cancelled"
    attempt = Attempt.objects.get(job_id=living.job_id)
    assert attempt.outcome == "cancelled"
    assert "did not heed its cancel" in attempt.error_detail


def _works_on(slots: SharedSlots, pid: int, token: int) -> None:
    """As the child itself would write it."""
    own = OwnSlot(slots)
    slots.put(own.index, _Field.PID, pid)
    own.begin(token)


@pytest.mark.parametrize("end", ["vanished", "watchdog", "deaf"])
def test_a_row_that_another_holds_costs_nobody_a_lease(
    custody: Custody,
    parent: "subprocess.Popen[bytes]",
    other: Elsewhere,
    slots: SharedSlots,
    tmp_path: Path,
    settings: Any,
    end: str,
) -> None:
    """An operator's open transaction, say. What is to become of that job waits, beat after beat; the leases do not."""
    settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS = 0.0
    living, vanished = _beat(custody, parent)
    held = vanished
    if end == "watchdog":
        (tmp_path / "1999999.trace").write_text("Timeout (0:00:10)!")
    if end == "deaf":
        held = living
        _works_on(slots, next(iter(kernel.children_of(parent.pid))), living.token)
        lifecycle.cancel(living.job_id)
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.job_id)
        for _ in range(3):
            other.run(lambda: Job.objects.exclude(pk=held.job_id).filter(state="running").update(lease_until=Now()))
            other.run(lambda: custody.look(parent.pid), within_seconds=5)
            assert held is living or other.run(lambda: _renewed(living))
        assert Attempt.objects.filter(job_id=held.job_id, finished_at=None).exists()
    other.run(lambda: custody.look(parent.pid))
    job, attempt = job_rows.read(held.job_id), Attempt.objects.get(job_id=held.job_id)
    assert (job.state, attempt.error_code) == {
        "vanished": ("queued", "worker_lost"),
        "watchdog": ("failed", "timeout"),
        "deaf": ("cancelled", "cancelled"),
    }[end]


def test_what_comes_back_is_the_clockworks_to_wake(
    custody: Custody, aftermath: Aftermath, parent: "subprocess.Popen[bytes]", other: Elsewhere, told: list[str]
) -> None:
    """Not the main thread's: a broker that hangs must not hold up a lease (P14)."""
    _beat(custody, parent)
    other.run(lambda: custody.look(parent.pid))
    assert told == ["came back"]
    (kept,) = leases.of_node(WorkerNode.objects.get().pk)
    aftermath.release(kept)
    assert told == ["came back"] * 2
    assert wakeups.queue_length("light") == 0


def test_a_timeout_that_cannot_be_stored_is_decided_once(
    custody: Custody, aftermath: Aftermath, tmp_path: Path
) -> None:
    """A child that its watchdog ended; the database ends our connection twice before the beat that stores it."""
    node = WorkerNode.objects.get()
    claimed = _claimed_by(node, 1_999_999, 1)
    (tmp_path / "1999999.trace").write_text("Timeout (0:00:10)!")
    (lease,) = leases.of_node(node.pk)
    counted = telemetry.RETRIES.labels("stop", "not_retryable")._value
    before = counted.get()
    for _ in range(2):
        connection.ensure_connection()
        connection.connection.close()
        with pytest.raises((OperationalError, InterfaceError)):
            aftermath.settle_vanished(lease)
        connection.close()
    aftermath.settle_vanished(lease)
    job = job_rows.read(claimed.job_id)
    assert (job.state, job.error_code, job.stopped_by) == ("failed", "timeout", "not_retryable")
    assert counted.get() == before + 1


def test_a_node_whose_row_another_holds_looks_after_its_jobs_all_the_same(other: Elsewhere) -> None:
    keeper = Keeper("light")
    keeper.ready = True
    other.run(keeper._say_we_live)
    seen_at = WorkerNode.objects.get(pk=keeper.node.id).seen_at
    with transaction.atomic():
        WorkerNode.objects.select_for_update().get(pk=keeper.node.id)
        other.run(keeper._say_we_live, within_seconds=5)
    assert WorkerNode.objects.get(pk=keeper.node.id).seen_at == seen_at
    other.run(keeper._say_we_live)
    assert WorkerNode.objects.get(pk=keeper.node.id).seen_at > seen_at
    keeper.selector.close()
    for fd in (keeper.slots.fd, keeper.budget.fd):
        os.close(fd)
