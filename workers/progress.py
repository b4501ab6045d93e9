"""Writing how far a job is.

On a connection of its own: on the handler's it would be part of the handler's transaction, unseen until that ends
and, worse, with the job's row locked against its own lease until then.
"""

import contextlib
import threading
from typing import Any

import structlog
from django.db import connections

from jobs import leases
from jobs.lifecycle import Claim
from jobs.storable import plain_text
from workers.once import on_this_thread

log = structlog.get_logger(__name__)

NOTE_LENGTH = 200  # of the column

_last: tuple[Claim, float, str] | None = None  # what came too soon after another to be written
_own: Any = None  # made at the first progress of this process
_one_at_a_time = threading.RLock()  # a signal that raises here must not lock its own thread out for good


def keep(claim: Claim, fraction: float, note: str) -> None:
    """Until the end, unless something newer is written before."""
    global _last
    _last = claim, fraction, note


def write_last(claim: Claim) -> None:
    """Once the attempt is over: what was kept of it, if it is the newest."""
    if _last is not None and _last[0] is claim:
        report(*_last)


def report(claim: Claim, fraction: float, note: str) -> None:
    """From any thread of the handler. Progress is a courtesy: whatever goes wrong with it must not fail the job."""
    global _last
    _last = None
    with _one_at_a_time:
        try:
            with on_this_thread():
                leases.report_progress(_connection(), claim.job_id, claim.attempt, fraction, shown(note))
        except Exception as error:
            log.warning("progress_not_written", error=type(error).__name__)
            _start_afresh()


def shown(note: str) -> str:
    """A note as it can be stored. Cut last: what is made visible takes more room."""
    return plain_text(note)[:NOTE_LENGTH]


def _connection() -> Any:
    global _own
    if _own is None:
        _own = connections.create_connection("default")
        _own.inc_thread_sharing()  # Django would refuse it to every thread but this one
    return _own


def _start_afresh() -> None:
    if _own is not None:
        with contextlib.suppress(Exception):
            _own.close()
