"""Sweeps that nobody ran in time: with Redis or beat away, any keeper runs them (P33)."""

import threading

import structlog
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.utils import DatabaseError, InterfaceError

from jobs import sweeps

log = structlog.get_logger(__name__)

OVERDUE_INTERVALS = 2.0


class OverdueSweeps(threading.Thread):
    """A thread of the keeper with a connection of its own: a slow sweep must not hold up a lease."""

    def __init__(self) -> None:
        super().__init__(name="overdue-sweeps", daemon=True)
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(settings.WEIGHBRIDGE_SWEEP_SECONDS):
            self._run_overdue()
        connection.close()

    def _run_overdue(self) -> None:
        try:
            close_old_connections()
            sweeps.run_due(OVERDUE_INTERVALS)
        except (DatabaseError, InterfaceError) as error:
            log.warning("sweeps_wait", error=str(error).split("\n")[0])
            connection.close()

    def stop(self) -> None:
        self._stopping.set()
