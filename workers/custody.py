"""The keeper's care for the attempts that its children run (P16, P18, P19).

It renews the leases of children that live, settles those of children that have vanished, passes cancels on, ends
at the hard deadline what nothing else ended, and ends a body whose lease was lost. A child is never killed on
an old look at it: it is stopped first, and its slot read again.
"""

import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import structlog
from django.conf import settings

from jobs import leases, lifecycle
from jobs.leases import Lease
from jobs.states import State
from workers import kernel, outcomes, reporting, settling
from workers.budget import RetryBudget
from workers.equipment import Papers
from workers.failures import JobTimeout
from workers.kernel import Child
from workers.limits import CANCEL_SIGNAL
from workers.settling import Verdict
from workers.slots import Phase, Seen, SharedSlots

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 5.0  # a database answers a claim in milliseconds
WATCHDOG_MARGIN_SECONDS = 2.0  # an acknowledged cancel ends by the child's own watchdog, or by us after this


class Custody:
    def __init__(
        self,
        node_id: UUID,
        slots: SharedSlots,
        budget: RetryBudget,
        folder: Path,
        selector: selectors.BaseSelector,
        end_orphans: Callable[[], int],
        came_back: Callable[[], None],
    ) -> None:
        """came_back is told of jobs that may be claimed again at once; it must not wait for anything."""
        self._node_id = node_id
        self._slots = slots
        self._budget = budget
        self._folder = folder
        self._selector = selector
        self._end_orphans = end_orphans
        self._came_back = came_back
        self._children: dict[int, Child] = {}
        self._unknown_since: dict[int, float] = {}  # token → when it was first seen in no slot, monotonic
        self._verdicts: dict[int, Verdict] = {}  # token → what was decided but is not stored yet
        self._asked: dict[int, float] = {}  # token → when its cancel was passed on, monotonic

    def look(self, celery_pid: int) -> None:
        """One beat. Raises as Django does when the database is away."""
        # In this order: what a slot shows now was claimed before, so the database knows it; and whoever holds a
        # lease was born before we look for children.
        at_work = [seen for seen in self._slots.all() if seen.phase is Phase.RUNNING and seen.token]
        held = leases.of_node(self._node_id)
        leased = {lease.token for lease in held}
        self._verdicts = {token: verdict for token, verdict in self._verdicts.items() if token in leased}
        self._hold_children(celery_pid)
        living = [lease for lease in held if self._lives(lease)]
        self._note_unknown(living)
        self._renew(living)  # first: settling may have to wait for somebody's row, and no lease should
        for lease in held:
            if lease not in living:
                self.settle_vanished(lease)
        self._cancel(living)
        self._fence(at_work, leased)

    # ── Who lives ────────────────────────────────────────────────────────────────────────────────────

    def _hold_children(self, celery_pid: int) -> None:
        for pid in kernel.children_of(celery_pid) - self._children.keys():
            self._hold(Child.hold(pid))

    def _hold(self, child: Child | None) -> Child | None:
        if child is not None:
            self._children[child.pid] = child
            self._selector.register(child.pidfd, selectors.EVENT_READ, self._let_go_of(child))
        return child

    def _let_go_of(self, child: Child) -> Callable[[object], None]:
        def let_go(_: object) -> None:
            """It ended; the beat that follows settles what it held."""
            self._selector.unregister(child.pidfd)
            del self._children[child.pid]
            child.let_go()

        return let_go

    def _lives(self, lease: Lease) -> bool:
        child = self._children.get(lease.pid)
        # A list of children proves that one lives, but not that one is gone.
        if child is None and kernel.is_alive(lease.pid, lease.process_started):
            child = self._hold(Child.hold(lease.pid))
        return child is not None and child.started == lease.process_started and not child.has_ended()

    def await_ends(self) -> None:
        """Celery is gone and the kernel has told its children; one in a system call may need a moment."""
        for child in self._children.values():
            child.await_end()
            child.kill()

    # ── What becomes of their attempts ───────────────────────────────────────────────────────────────

    def settle_vanished(self, lease: Lease) -> None:
        """Its descendants end first (P16). A trace says that its own watchdog ended it: it had a limit, not an accident."""
        self._end_orphans()
        papers = Papers.of(self._folder, lease.pid)
        trace, kept_log = papers.read()
        if trace or lease.token in self._verdicts:
            self._settle_timed_out(lease, trace, kept_log)
        else:
            self._lose(lease, kept_log=kept_log)
        papers.remove()

    def release(self, lease: Lease) -> None:
        if lifecycle.release(lease.job_id, lease.attempt) is State.QUEUED:
            self._came_back()

    def _lose(self, lease: Lease, detail: str = "", kept_log: str = "") -> None:
        if lifecycle.lose(lease.job_id, lease.attempt, detail, kept_log) is State.QUEUED:
            self._came_back()

    def _settle_timed_out(self, lease: Lease, trace: str, kept_log: str) -> None:
        if lease.token not in self._verdicts:
            self._verdicts[lease.token] = self._of_timeout(lease, trace, kept_log)
        if settling.store(lease, self._verdicts[lease.token]) is not None:
            reporting.from_the_keeper(JobTimeout(), lease)
        del self._verdicts[lease.token]

    def _of_timeout(self, lease: Lease, trace: str, kept_log: str) -> Verdict:
        """Decided once: the beat that stores it may be a later one than this, when the database is away."""
        cut = lease.remaining_seconds is not None and lease.remaining_seconds <= 0
        outcome = outcomes.with_log(outcomes.timed_out(cut, trace, settling.retry_of(lease.type)), kept_log)
        return settling.judge(lease, outcome, JobTimeout(), lease.remaining_seconds, self._budget.spend)

    def _renew(self, living: list[Lease]) -> None:
        in_time = [lease for lease in living if lease.hard_seconds > 0 and not self._is_nobodys(lease)]
        if in_time:
            leases.renew(self._node_id, in_time, settings.WEIGHBRIDGE_LEASE_SECONDS)
        for lease in living:
            if self._is_nobodys(lease):
                self._lose(lease, "The claim's answer never reached the child.")
            elif lease.hard_seconds <= 0:
                self._end_at_hard_deadline(lease)

    def _note_unknown(self, living: list[Lease]) -> None:
        """Attempts that the database gave to a living child that does not work on them: it never learnt of its claim."""
        now = time.monotonic()
        unknown = [lease.token for lease in living if self._slots.of(lease.pid, lease.token) is None]
        self._unknown_since = {token: self._unknown_since.get(token, now) for token in unknown}

    def _is_nobodys(self, lease: Lease) -> bool:
        """For so long that it cannot be a claim, or a settle, on its way."""
        since = self._unknown_since.get(lease.token)
        return since is not None and time.monotonic() - since > ANSWER_SECONDS

    def _end_at_hard_deadline(self, lease: Lease) -> None:
        child = self._children.get(lease.pid)
        if child is None or not child.stand_still():
            return  # the next beat finds it vanished
        # The database may have been away since it was looked at, and the child be at another job (P19). While it
        # settles, only this may end it (P30).
        if self._slots.of(lease.pid, lease.token) is None:
            child.send(signal.SIGCONT)
            return
        log.warning("hard_deadline", job_id=str(lease.job_id), attempt=lease.attempt, pid=lease.pid)
        child.kill()
        child.await_end()
        self._end_orphans()
        _, kept_log = Papers.of(self._folder, lease.pid).read()
        self._settle_timed_out(lease, "It was ended by its keeper at the hard deadline.", kept_log)

    # ── Cancels ──────────────────────────────────────────────────────────────────────────────────────

    def _cancel(self, living: list[Lease]) -> None:
        wanted = {lease.token for lease in living if lease.cancel_requested}
        self._asked = {token: at for token, at in self._asked.items() if token in wanted}
        for lease in living:
            seen = self._slots.of(lease.pid, lease.token)
            if lease.cancel_requested and seen is not None:
                self._pass_on(lease, seen)

    def _pass_on(self, lease: Lease, seen: Seen) -> None:
        asked_at = self._asked.get(lease.token)
        if asked_at is None:
            self._asked[lease.token] = time.monotonic()
            self._slots.ask_to_cancel(seen)
            self._children[lease.pid].send(CANCEL_SIGNAL)
            return
        patience = settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS
        if self._slots.has_acknowledged(seen):
            patience += WATCHDOG_MARGIN_SECONDS
        if time.monotonic() - asked_at > patience and self._end_if_at_work(lease.pid, lease.token, "cancelled"):
            self._settle_deaf(lease)

    def _settle_deaf(self, lease: Lease) -> None:
        """It was ended for its cancel, not lost. Without this the next beat would find its child vanished."""
        papers = Papers.of(self._folder, lease.pid)
        _, kept_log = papers.read()
        outcome = outcomes.cancelled("Its keeper ended it, because it did not heed its cancel.")
        lifecycle.settle(lease.job_id, lease.attempt, outcomes.with_log(outcome, kept_log))
        papers.remove()

    # ── Bodies without a lease ───────────────────────────────────────────────────────────────────────

    def _fence(self, at_work: list[Seen], leased: set[int]) -> None:
        """After a pause longer than the lease the job is somebody else's: end the body here (P18)."""
        for seen in at_work:
            if seen.token not in leased:
                self._end_if_at_work(seen.pid, seen.token, "lease_lost")

    def _end_if_at_work(self, pid: int, token: int, why: str) -> bool:
        """It may have settled and gone on to another job since it was looked at: stop it, read again, decide (P19)."""
        child = self._children.get(pid)
        if child is None or not child.stand_still():
            return False
        seen = self._slots.of(pid, token)
        if seen is not None and seen.phase is Phase.RUNNING:
            log.warning("body_ended", pid=pid, token=token, why=why)
            child.kill()
            child.await_end()
            self._end_orphans()
            return True
        child.send(signal.SIGCONT)
        return False
