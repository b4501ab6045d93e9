"""What a keeper does on a clock besides its leases, in a thread with a connection of its own, so that a slow sweep
or a broker that hangs cannot hold up a lease.

It wakes jobs that come due or come back (P14), runs sweeps that nobody ran in time (P33), and notices a Celery that has
stopped consuming (P24).
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.utils import DatabaseError, InterfaceError

from jobs import classes, queries, sweeps, wakeups
from jobs.nodes import Node
from workers.consumption import Consumption, Sight
from workers.slots import SharedSlots

log = structlog.get_logger(__name__)

OVERDUE_INTERVALS = 2.0


class Clockwork(threading.Thread):
    def __init__(self, node: Node, slots: SharedSlots, folder: Path) -> None:
        super().__init__(name="clockwork", daemon=True)
        self._node = node
        self._slots = slots
        self._stopping = threading.Event()
        self._called = threading.Event()
        # A node has an id per boot, so its class and host have to stand for it. Two nodes of a class that share host and
        # data directory share the mark as well; that makes them more patient, never less.
        self._restarts = folder / f"{node.cost_class}@{node.hostname}.restarted"
        self._consumption = Consumption(self._last_restart())
        self.celery_has_stopped = False

    def run(self) -> None:
        while not self._stopping.is_set():
            self._called.wait(settings.WEIGHBRIDGE_SWEEP_SECONDS)
            self._called.clear()
            self._guarded(self._last if self._stopping.is_set() else self._once)
        connection.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            close_old_connections()
            work()
        except (DatabaseError, InterfaceError) as error:
            log.warning("sweeps_wait", error=str(error).split("\n")[0])
            connection.close()
        except Exception:  # a fault in one round must not end all that follow
            log.exception("clockwork_failed")
            connection.close()

    def _once(self) -> None:
        sweeps.run_due(OVERDUE_INTERVALS)
        if self._node.cost_class == classes.CONTROL:
            return
        sweeps.wake_due(self._node.cost_class)
        if not self.celery_has_stopped and self._consumption.has_stopped(self._look()):
            self._restarts.touch()
            self.celery_has_stopped = True

    def _last(self) -> None:
        """What the keeper gave back as it stopped: another node may take it at once."""
        if self._node.cost_class != classes.CONTROL:
            sweeps.wake_due(self._node.cost_class)

    def _look(self) -> Sight:
        return Sight(
            wake_ups=wakeups.queue_length(self._node.cost_class),
            claimable=queries.claimable(self._node.cost_class, self._node.types),
            free_processes=self._node.processes - self._slots.busy,
            starts=self._slots.starts,
        )

    def _last_restart(self) -> float | None:
        """In this process's monotonic seconds, of a restart that an earlier boot of this node asked for."""
        try:
            age = time.time() - self._restarts.stat().st_mtime
        except OSError:
            return None
        return time.monotonic() - max(0.0, age)

    def jobs_came_back(self) -> None:
        """Have their wake-ups sent now. Returns at once: the caller must not wait for the broker."""
        self._called.set()

    def stop(self) -> None:
        self._stopping.set()
        self._called.set()
