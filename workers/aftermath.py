"""What becomes of an attempt that its child did not live to settle (P16, P26).

Timed out, if its own watchdog or the keeper ended it at a limit; cancelled, if it was ended for that; lost, if nobody meant
its process to end; released, if its node stops. Whatever can still be known of it is kept: its log, what it had used,
where it stood. Where somebody holds the job's row nothing waits: that job's turn comes again with the next beat.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from jobs import lifecycle
from jobs.leases import Lease
from jobs.lifecycle import Remains
from jobs.row_locks import RowHeld, not_waiting
from jobs.states import State
from workers import outcomes, reporting, settling
from workers.budget import RetryBudget
from workers.equipment import Papers
from workers.failures import JobTimeout
from workers.settling import Verdict
from workers.usage import Usage

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Decided:
    """What becomes of an attempt. Decided once, since that may spend from the budget; a later beat may store it."""

    verdict: Verdict
    error: BaseException | None = None  # what an error tracker is told


class Aftermath:
    def __init__(
        self, folder: Path, budget: RetryBudget, end_orphans: Callable[[], int], came_back: Callable[[], None]
    ) -> None:
        """came_back is told of jobs that may be claimed again at once; it must not wait for anything."""
        self._folder = folder
        self._budget = budget
        self._end_orphans = end_orphans
        self._came_back = came_back
        self._decided: dict[int, _Decided] = {}  # by token, until it is stored
        self._used: dict[int, Usage] = {}  # by token, as of the last beat that saw it

    def note_usage(self, token: int, used: Usage) -> None:
        """While it lives."""
        self._used[token] = used

    def forget_all_but(self, leased: set[int]) -> None:
        """Tokens that no lease bears are settled."""
        for by_token in (self._decided, self._used):
            for token in by_token.keys() - leased:
                del by_token[token]

    def settle_vanished(self, lease: Lease, at_its_limit: bool = False) -> None:
        """Its descendants end first (P16). A trace says that its own watchdog ended it: it had a limit, not an accident.
        Raises RowHeld."""
        self._end_orphans()
        trace, _ = self._papers(lease).read()
        if at_its_limit and not trace:
            trace = "Its process ended at its limit, and left no trace of where it stood."
        if trace and lease.token not in self._decided:
            self._decided[lease.token] = self._of_watchdog(lease, trace)
        if lease.token in self._decided:
            self._store_decided(lease)
        else:
            self.lose(lease)
        self._papers(lease).remove()

    def lose(self, lease: Lease, detail: str = "") -> None:
        """Raises RowHeld."""
        with not_waiting():
            state = lifecycle.lose(lease.job_id, lease.attempt, self._remains(lease, detail))
        self._note_return(state)

    def release(self, lease: Lease) -> None:
        """Without blame, but for what its own watchdog had ended. Raises RowHeld."""
        if self._papers(lease).read()[0] or lease.token in self._decided:
            self.settle_vanished(lease)
            return
        with not_waiting():
            state = lifecycle.release(lease.job_id, lease.attempt, self._remains(lease))
        self._note_return(state)

    def end_timed_out(self, lease: Lease, detail: str) -> None:
        """The keeper has ended it, at its hard deadline. Raises RowHeld."""
        self._end_orphans()
        self._decided[lease.token] = self._of_watchdog(lease, detail)
        self._store_decided(lease)

    def end_cancelled(self, lease: Lease, detail: str) -> None:
        """The keeper has ended it, for its cancel. Raises RowHeld."""
        self._end_orphans()
        self._decided[lease.token] = self._of_cancel(lease, detail)
        self._store_decided(lease)

    def remove_papers(self, pids: Iterable[int]) -> None:
        for pid in pids:
            Papers.of(self._folder, pid).remove()

    def _of_watchdog(self, lease: Lease, trace: str) -> _Decided:
        """It ended the attempt at its limit, or for a cancel that the handler did not heed."""
        if lease.cancel_requested:
            return self._of_cancel(lease, trace)
        cut = lease.remaining_seconds is not None and lease.remaining_seconds <= 0
        outcome = self._remains(lease).of(outcomes.timed_out(cut, trace, settling.retry_of(lease.type)))
        error = JobTimeout()
        return _Decided(settling.judge(lease, outcome, error, lease.remaining_seconds, self._budget.spend), error)

    def _of_cancel(self, lease: Lease, detail: str) -> _Decided:
        return _Decided(Verdict(self._remains(lease).of(outcomes.cancelled(detail))))

    def _store_decided(self, lease: Lease) -> None:
        decided = self._decided[lease.token]
        with not_waiting():
            state = settling.store(lease, decided.verdict)
        if decided.error is not None and state in {State.QUEUED, State.FAILED}:
            reporting.from_the_keeper(decided.error, lease)

    def _note_return(self, state: State | None) -> None:
        if state is State.QUEUED:
            self._came_back()

    def _remains(self, lease: Lease, detail: str = "") -> Remains:
        _, kept_log = self._papers(lease).read()
        used = self._used.get(lease.token)
        if used is None:
            return Remains(detail, kept_log)
        return Remains(detail, kept_log, used.cpu_seconds, used.peak_rss_bytes)

    def _papers(self, lease: Lease) -> Papers:
        return Papers.of(self._folder, lease.pid)


def each_in_turn(held: Iterable[Lease], act: Callable[[Lease], None]) -> None:
    """One whose row somebody holds waits for the next beat, and the others do not wait for it."""
    for lease in held:
        try:
            act(lease)
        except RowHeld:
            log.info("row_held", job_id=str(lease.job_id), attempt=lease.attempt)
