"""Writing how far a job is.

On a connection of its own: on the handler's it would be part of the handler's transaction, unseen until that ends
and, worse, with the job's row locked against its own lease until then.
"""

from typing import Any

import structlog
from django.db import connections
from django.db.utils import DatabaseError, InterfaceError

from jobs import lifecycle
from jobs.lifecycle import Claim
from jobs.storable import plain_text
from workers.once import on_this_thread

log = structlog.get_logger(__name__)

_own: Any = None  # made at the first progress of this process


def report(claim: Claim, fraction: float, note: str) -> None:
    """Progress is a courtesy: a database that is away for a moment must not fail the job."""
    global _own
    try:
        with on_this_thread():
            if _own is None:
                _own = connections.create_connection("default")
            lifecycle.report_progress(_own, claim.job_id, claim.attempt, fraction, plain_text(note))
    except (DatabaseError, InterfaceError) as error:
        log.warning("progress_not_written", error=type(error).__name__)
        if _own is not None:
            _own.close()
