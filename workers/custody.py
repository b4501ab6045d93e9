"""The keeper's care for the attempts that its children run (P16, P18, P19).

It renews the leases of children that live, settles those of children that have vanished, passes cancels on, ends
at the hard deadline what nothing else ended, and ends a body whose lease was lost. A child is never killed on
an old look at it: it is stopped first, and its slot read again. What becomes of attempts whose child is gone is
`aftermath.py`'s.
"""

import selectors
import signal
import time
from collections.abc import Callable
from uuid import UUID

import structlog
from django.conf import settings

from jobs import leases
from jobs.leases import Lease
from jobs.lifecycle import HARD_DEADLINE_MARGIN_SECONDS
from workers import kernel, usage
from workers.aftermath import Aftermath, each_in_turn
from workers.kernel import Child
from workers.limits import CANCEL_SIGNAL
from workers.slots import Phase, Seen, SharedSlots

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 5.0  # a database answers a claim in milliseconds
WATCHDOG_MARGIN_SECONDS = 2.0  # an acknowledged cancel ends by the child's own watchdog, or by us after this
# A child that settles as a grace or its hard deadline ends would have its finished job run again; it gets this much more.
SETTLING_SECONDS = 3.0
LIMIT_SLACK_SECONDS = 0.25  # a child counts its limit from before it asked for its claim


class Custody:
    def __init__(
        self, node_id: UUID, slots: SharedSlots, aftermath: Aftermath, selector: selectors.BaseSelector
    ) -> None:
        self._node_id = node_id
        self._slots = slots
        self._aftermath = aftermath
        self._selector = selector
        self._children: dict[int, Child] = {}
        self._unknown_since: dict[int, float] = {}  # token → when it was first seen in no slot, monotonic
        self._overdue_since: dict[int, float] = {}  # token → first seen past its hard deadline, monotonic
        self._gone: dict[
            int, float
        ] = {}  # pids of children whose papers may still lie there → when they ended, monotonic
        self._looked_at = 0.0  # at the leases, monotonic
        self._asked: dict[int, float] = {}  # token → when its cancel was passed on, monotonic

    def look(self, celery_pid: int) -> None:
        """One beat. Raises as Django does when the database is away."""
        # In this order: what a slot shows now was claimed before, so the database knows it; and whoever holds a
        # lease was born before we look for children.
        at_work = [seen for seen in self._slots.all() if seen.phase is Phase.RUNNING and seen.token]
        self._looked_at = time.monotonic()
        held = leases.of_node(self._node_id)
        leased = {lease.token for lease in held}
        self._forget_all_but(leased)
        self._hold_children(celery_pid)
        living = [lease for lease in held if self._lives(lease)]
        self._note_unknown(living)
        self._note_usage(living)
        self._renew(living)
        each_in_turn([lease for lease in held if lease not in living], self._settle_vanished)
        self._cancel(living)
        self._fence(at_work, leased)
        self._remove_papers_besides({lease.pid for lease in held})

    def _forget_all_but(self, leased: set[int]) -> None:
        self._aftermath.forget_all_but(leased)
        for by_token in (self._overdue_since, self._asked):
            for token in by_token.keys() - leased:
                del by_token[token]

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
            self._gone[child.pid] = time.monotonic()
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

    def _remove_papers_besides(self, needed: set[int]) -> None:
        """Of children that have ended and whose attempts are all settled."""
        self._aftermath.remove_papers(self._gone.keys() - needed)
        self._gone = {pid: ended_at for pid, ended_at in self._gone.items() if pid in needed}

    def _settle_vanished(self, lease: Lease) -> None:
        """One that ended when its limit was over ended for that, also where its watchdog could leave no trace: on a full disk, or
        because the handler had put another's alarm in the place of ours."""
        after_the_limit = settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS + HARD_DEADLINE_MARGIN_SECONDS
        limit_at = self._looked_at + lease.hard_seconds - after_the_limit
        ended_at = self._gone.get(lease.pid, time.monotonic())
        self._aftermath.settle_vanished(lease, at_its_limit=ended_at >= limit_at - LIMIT_SLACK_SECONDS)

    def part_with(self, blameless: bool) -> None:
        """All children have ended. At a stop what they ran is released; else it has vanished with them."""
        part = self._aftermath.release if blameless else self._aftermath.settle_vanished
        each_in_turn(leases.of_node(self._node_id), part)

    # ── Leases ───────────────────────────────────────────────────────────────────────────────────────

    def _renew(self, living: list[Lease]) -> None:
        nobodys = [lease for lease in living if self._is_nobodys(lease)]
        others = [lease for lease in living if lease not in nobodys]
        in_time = [lease for lease in others if lease.hard_seconds > 0]
        if in_time:
            leases.renew(self._node_id, in_time, settings.WEIGHBRIDGE_LEASE_SECONDS)
        each_in_turn(nobodys, lambda lease: self._aftermath.lose(lease, "The claim's answer never reached the child."))
        each_in_turn([lease for lease in others if lease.hard_seconds <= 0], self._end_at_hard_deadline)

    def _note_unknown(self, living: list[Lease]) -> None:
        """Attempts that the database gave to a living child that does not work on them: it never learnt of its claim."""
        now = time.monotonic()
        unknown = [lease.token for lease in living if self._slots.of(lease.pid, lease.token) is None]
        self._unknown_since = {token: self._unknown_since.get(token, now) for token in unknown}

    def _note_usage(self, living: list[Lease]) -> None:
        for lease in living:
            seen = self._slots.of(lease.pid, lease.token)
            used = None if seen is None else usage.so_far(lease.pid, seen.cpu_seconds_before)
            if used is not None:
                self._aftermath.note_usage(lease.token, used)

    def _is_nobodys(self, lease: Lease) -> bool:
        """For so long that it cannot be a claim, or a settle, on its way."""
        since = self._unknown_since.get(lease.token)
        return since is not None and time.monotonic() - since > ANSWER_SECONDS

    def _end_at_hard_deadline(self, lease: Lease) -> None:
        child = self._children.get(lease.pid)
        if self._is_about_to_settle(lease) or child is None or not child.stand_still():
            return  # the next beat finds it vanished, or as it is now
        # The database may have been away since it was looked at, and the child be at another job (P19). While it
        # settles, only this may end it (P30).
        if self._slots.of(lease.pid, lease.token) is None:
            child.send(signal.SIGCONT)
            return
        log.warning("hard_deadline", job_id=str(lease.job_id), attempt=lease.attempt, pid=lease.pid)
        child.kill()
        child.await_end()
        self._aftermath.end_timed_out(lease, "It was ended by its keeper at the hard deadline.")

    def _is_about_to_settle(self, lease: Lease) -> bool:
        """The database may have been away until now, and the child have kept its outcome all the while."""
        seen = self._slots.of(lease.pid, lease.token)
        since = self._overdue_since.setdefault(lease.token, time.monotonic())
        return seen is not None and seen.phase is Phase.SETTLING and time.monotonic() - since < SETTLING_SECONDS

    # ── Cancels ──────────────────────────────────────────────────────────────────────────────────────

    def _cancel(self, living: list[Lease]) -> None:
        each_in_turn([lease for lease in living if lease.cancel_requested], self._pass_on)

    def _pass_on(self, lease: Lease) -> None:
        seen = self._slots.of(lease.pid, lease.token)
        if seen is None or seen.phase is not Phase.RUNNING:
            return  # its settle sees the cancel (P20)
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
            self._aftermath.end_cancelled(lease, "Its keeper ended it, because it did not heed its cancel.")

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
            return True
        child.send(signal.SIGCONT)
        return False
