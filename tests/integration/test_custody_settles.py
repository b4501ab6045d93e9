"""Who ends a child that settles, and who does not (P30); what is still known of one that was ended. With a real process."""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs import leases, lifecycle
from jobs.lifecycle import Claimant, Outcome
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.waiting import eventually
from workers import custody, kernel, reporting
from workers.aftermath import Aftermath
from workers.budget import RetryBudget
from workers.custody import SETTLING_SECONDS, Custody
from workers.slots import OwnSlot, Phase, SharedSlots, _Field

pytestmark = pytest.mark.django_db(transaction=True)

# It ignores what a child would answer, and has used some CPU and memory.
CHILD = """
import signal, time
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
block = bytearray(b"x") * (32 << 20)
while time.process_time() < 0.2: pass
print("up", flush=True)
time.sleep(60)
"""


@dataclass
class Scene:
    """A keeper's custody of one child that works on one job."""

    custody: Custody
    child: "subprocess.Popen[bytes]"
    own: OwnSlot
    job_id: Any
    token: int
    folder: Path

    def look(self) -> None:
        self.custody.look(os.getpid())

    def lives(self) -> bool:
        return self.child.poll() is None

    def job(self) -> Job:
        return job_rows.read(self.job_id)

    def attempt(self) -> Attempt:
        return Attempt.objects.get(job_id=self.job_id)

    def overdue(self) -> None:
        Job.objects.update(hard_deadline=job_rows.later(-1))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    child = subprocess.Popen([sys.executable, "-S", "-c", CHILD], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    node = job_rows.a_node()
    job = job_rows.a_queued_job()
    slots = SharedSlots.create(1)
    claimant = Claimant(node.pk, child.pid, kernel.process_started(child.pid))
    claimed = lifecycle.claim(claimant, "light", [job_rows.TYPE], 30, 5)
    assert claimed is not None
    own = OwnSlot(slots)
    slots.put(own.index, _Field.PID, child.pid)
    own.begin(claimed.token)
    with selectors.DefaultSelector() as selector:
        keeper = Custody(node.pk, slots, Aftermath(tmp_path, RetryBudget.create(), lambda: 0, lambda: None), selector)
        yield Scene(keeper, child, own, job.pk, claimed.token, tmp_path)
    child.kill()
    child.communicate()


def test_a_cancel_is_not_passed_on_to_a_child_that_settles(scene: Scene) -> None:
    """Its settle sees it (P20); a signal now would only set a watchdog that nobody needs."""
    scene.own.settle()
    lifecycle.cancel(scene.job_id)
    scene.look()
    assert not scene.own.cancelled
    assert scene.lives()


@pytest.mark.parametrize(("phase", "lives"), [(Phase.RUNNING, False), (Phase.SETTLING, True)])
def test_a_lost_lease_ends_a_body_but_no_settle(scene: Scene, phase: Phase, lives: bool) -> None:
    if phase is Phase.SETTLING:
        scene.own.settle()
    lifecycle.lose(scene.job_id, 1)
    scene.look()
    assert scene.lives() is lives
    if lives:
        assert kernel.run_state(scene.child.pid) not in "Tt"


def test_a_child_that_has_kept_its_outcome_over_an_outage_gets_the_time_to_store_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hard deadline came while the database was away: the first beat after that does not make a timeout of a success."""
    scene.own.settle()
    scene.overdue()
    scene.look()
    assert scene.lives()
    assert scene.job().state == "running"
    monkeypatch.setattr(custody, "SETTLING_SECONDS", 0.0)
    scene.look()
    assert not scene.lives()
    assert (scene.job().state, scene.job().error_code) == ("failed", "timeout")
    assert SETTLING_SECONDS == 3.0  # docs/rules.md says so


def test_at_its_hard_deadline_a_child_that_has_gone_on_to_another_job_is_spared(scene: Scene) -> None:
    """The database was away since the keeper looked; the slot is read again while the child stands still (P19)."""
    scene.overdue()
    (lease,) = leases.of_node(WorkerNode.objects.get().pk)
    scene.custody._hold_children(os.getpid())
    scene.own.begin(scene.token + 1)
    scene.custody._end_at_hard_deadline(lease)
    eventually(lambda: kernel.run_state(scene.child.pid) == "S")
    assert scene.job().state == "running"


# ── What is still known ──────────────────────────────────────────────────────────────────────────────────────────────


def _killed(scene: Scene) -> None:
    scene.child.kill()
    scene.child.wait()
    scene.look()


def _at_the_hard_deadline(scene: Scene) -> None:
    scene.overdue()
    scene.look()


def _deaf_to_its_cancel(scene: Scene) -> None:
    lifecycle.cancel(scene.job_id)
    scene.look()
    scene.look()


def _by_its_watchdog(scene: Scene) -> None:
    (scene.folder / f"{scene.child.pid}.trace").write_text("Timeout (0:00:10)!")
    _killed(scene)


def _at_the_end_of_the_grace(scene: Scene) -> None:
    scene.child.kill()
    scene.child.wait()
    scene.custody.part_with(blameless=True)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (_killed, "worker_lost"),
        (_at_the_hard_deadline, "timeout"),
        (_deaf_to_its_cancel, "cancelled"),
        (_by_its_watchdog, "timeout"),
        (_at_the_end_of_the_grace, "released"),
    ],
)
def test_an_attempt_that_did_not_live_to_tell_still_has_its_log_its_time_and_its_usage(
    scene: Scene, settings: Any, end: Any, code: str
) -> None:
    settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS = 0.0
    (scene.folder / f"{scene.child.pid}.log").write_text("halfway\n")
    scene.look()
    end(scene)
    attempt = scene.attempt()
    assert (attempt.error_code, attempt.log) == (code, "halfway\n")
    assert attempt.run_seconds is not None
    assert attempt.run_seconds > 0
    assert attempt.cpu_seconds is not None
    assert attempt.cpu_seconds >= 0.2 * 0.9
    assert attempt.peak_rss_bytes is not None
    assert attempt.peak_rss_bytes >= 32 << 20
    assert scene.job().run_seconds == pytest.approx(attempt.run_seconds, abs=0.5)


def test_a_cancel_that_its_watchdog_ended_is_no_timeout(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told of a failure that somebody asked for."""
    told: list[object] = []
    monkeypatch.setattr(reporting, "from_the_keeper", lambda error, lease: told.append(error))
    lifecycle.cancel(scene.job_id)
    _by_its_watchdog(scene)
    assert (scene.job().state, scene.attempt().error_code, told) == ("cancelled", "cancelled", [])


def test_the_papers_of_a_child_that_was_replaced_are_removed(scene: Scene) -> None:
    papers = [scene.folder / f"{scene.child.pid}.{kind}" for kind in ("log", "trace")]
    for paper in papers:
        paper.touch()
    scene.look()
    lifecycle.settle(scene.job_id, 1, Outcome(State.FAILED, error_code="handler_error"))
    scene.child.send_signal(signal.SIGKILL)
    scene.child.wait()
    for key, _ in scene.custody._selector.select(5):
        key.data(key.fileobj)
    assert all(paper.exists() for paper in papers)
    scene.look()
    assert not any(paper.exists() for paper in papers)
