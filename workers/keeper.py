"""The outer process of a worker node (P15, P16).

It starts Celery and ends it, says in the database that the node lives, renews the leases of attempts
whose child lives, kills a child at its hard deadline, and settles an attempt whose child has vanished.
Celery dies with it. It never talks to the broker from its main thread, so a broker that hangs cannot
hold up a lease.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.utils import DatabaseError, InterfaceError

from jobs import classes, lifecycle, nodes, queries, registry
from jobs.lifecycle import LOST, Lease, Outcome
from jobs.states import State
from workers import kernel
from workers.children import CLASS_VARIABLE, READY_VARIABLE
from workers.kernel import Child, die_with_parent
from workers.overdue import OverdueSweeps
from workers.runner import NODE_VARIABLE

log = structlog.get_logger(__name__)

CONTROL_PROCESSES = 1

TIMED_OUT = Outcome(State.FAILED, error_code="timeout", error_message="It ran longer than its limit and was ended.")


@dataclass(frozen=True)
class Fence:
    """Celery's own time limit, the last of all (P30): only a keeper that is stopped lets it be reached."""

    ceiling_seconds: float

    def seconds(self) -> float:
        return float(
            self.ceiling_seconds
            + settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS
            + lifecycle.HARD_DEADLINE_MARGIN_SECONDS
            + settings.WEIGHBRIDGE_LEASE_SECONDS
            + 1
        )


class Keeper:
    """One node of one cost class, or of the control queue."""

    def __init__(self, cost_class: str) -> None:
        declared = classes.declared().get(cost_class)
        self.node = nodes.Node(
            id=uuid4(),  # per boot: a restarted keeper owns nothing of its predecessor's
            hostname=socket.gethostname(),
            pid=os.getpid(),
            cost_class=cost_class,
            processes=declared.processes if declared else CONTROL_PROCESSES,
            types=tuple(registry.names()),
        )
        self.fence = Fence(declared.ceiling_seconds if declared else 60)
        self.children: dict[int, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.ready = False
        self.stop_by: float | None = None  # monotonic; set by the first TERM
        self.celery: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until Celery ends, by itself or because we were told to stop; the exit status."""
        log.info("node_starts", node=str(self.node.id), cost_class=self.node.cost_class, processes=self.node.processes)
        self._become_keeper()
        self.celery = celery = self._start_celery()
        if self.stop_by is not None:  # told to, while there was nothing to stop yet
            celery.terminate()
        sweeper = OverdueSweeps()
        sweeper.start()
        while celery.poll() is None:
            self._beat(celery)
            self._rest()
        sweeper.stop()
        self._close_books(celery)
        return 0 if self.stop_by is not None else 1

    # ── Starting ─────────────────────────────────────────────────────────────────────────────────────

    def _become_keeper(self) -> None:
        kernel.adopt_orphans()
        awake, self._alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(awake, selectors.EVENT_READ, self._drain_alarm)
        signal.set_wakeup_fd(self._alarm)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)

    def _start_celery(self) -> subprocess.Popen[bytes]:
        """In a session of its own, so that a Ctrl-C in the terminal reaches only us."""
        told, tell = os.pipe()
        self.selector.register(told, selectors.EVENT_READ, self._celery_is_ready)
        environment = {
            **os.environ,
            NODE_VARIABLE: str(self.node.id),
            CLASS_VARIABLE: self.node.cost_class,
            READY_VARIABLE: str(tell),
        }
        celery = subprocess.Popen(
            self._command(), env=environment, pass_fds=[tell], start_new_session=True, preexec_fn=die_with_parent
        )
        os.close(tell)
        return celery

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "celery", "--app", "project", "worker"),
            *("--queues", self.node.cost_class),
            *("--hostname", f"{self.node.cost_class}-{str(self.node.id)[:8]}@%h"),
            *("--concurrency", str(self.node.processes)),
            *("--pool", "prefork", "--time-limit", str(self.fence.seconds())),
            *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
        ]

    # ── One beat ─────────────────────────────────────────────────────────────────────────────────────

    def _beat(self, celery: subprocess.Popen[bytes]) -> None:
        if self.stop_by is not None and time.monotonic() >= self.stop_by:
            log.warning("grace_over", node=str(self.node.id))
            celery.kill()  # its children follow it
            return
        kernel.end_orphans(spare=celery.pid)
        try:
            close_old_connections()
            self._say_we_live()
            self._look_after_leases(celery.pid)
        except (DatabaseError, InterfaceError) as error:
            # The leases are long and nobody reaps while the database is away (P17): try again next beat.
            log.warning("beat_failed", error=str(error).split("\n")[0])
            connection.close()

    def _say_we_live(self) -> None:
        if self.ready:
            nodes.beat(self.node)
        if self.stop_by is not None:
            nodes.stopping(self.node.id)

    def _look_after_leases(self, celery_pid: int) -> None:
        leases = queries.leases_of(self.node.id)
        self._hold_children(celery_pid)  # after reading: whoever holds a lease was born before we look
        alive = [lease for lease in leases if self._lives(lease)]
        for lease in leases:
            if lease not in alive:
                self._settle(lease, LOST)
            elif lease.remaining_seconds <= 0:
                self._end_at_hard_deadline(lease)
        renewable = [lease for lease in alive if lease.remaining_seconds > 0]
        if renewable:
            lifecycle.renew(self.node.id, renewable, settings.WEIGHBRIDGE_LEASE_SECONDS)

    def _hold_children(self, celery_pid: int) -> None:
        for pid in kernel.children_of(celery_pid) - self.children.keys():
            child = Child.hold(pid)
            if child is not None:
                self.children[pid] = child
                self.selector.register(child.pidfd, selectors.EVENT_READ, lambda _, child=child: self._let_go(child))

    def _lives(self, lease: Lease) -> bool:
        child = self.children.get(lease.pid)
        return child is not None and child.started == lease.process_started and not _has_ended(child)

    def _end_at_hard_deadline(self, lease: Lease) -> None:
        child = self.children[lease.pid]
        log.warning("hard_deadline", job_id=str(lease.job_id), attempt=lease.attempt, pid=lease.pid)
        child.kill()
        self._settle(lease, TIMED_OUT)

    def _settle(self, lease: Lease, outcome: Outcome) -> None:
        lifecycle.settle(lease.job_id, lease.attempt, outcome)

    # ── Between beats ────────────────────────────────────────────────────────────────────────────────

    def _rest(self) -> None:
        """Sleep until the next beat; wake for a signal, for Celery's readiness, for a child that ends."""
        for key, _ in self.selector.select(settings.WEIGHBRIDGE_BEAT_SECONDS):
            key.data(key.fileobj)

    def _drain_alarm(self, fd: int) -> None:
        os.read(fd, 512)

    def _celery_is_ready(self, fd: int) -> None:
        self.ready = os.read(fd, 1) != b""  # empty: Celery ended before it was
        self.selector.unregister(fd)
        os.close(fd)

    def _let_go(self, child: Child) -> None:
        """It ended; the beat that follows settles what it held."""
        self.selector.unregister(child.pidfd)
        del self.children[child.pid]
        child.let_go()

    # ── Stopping ─────────────────────────────────────────────────────────────────────────────────────

    def _told_to_stop(self, number: int, frame: object) -> None:
        if self.stop_by is None:
            self.stop_by = time.monotonic() + settings.WEIGHBRIDGE_STOP_GRACE_SECONDS
            if self.celery is not None:
                self.celery.terminate()  # it takes no more, lets running jobs finish, and ends

    def _close_books(self, celery: subprocess.Popen[bytes]) -> None:
        """Celery has ended, and its children with it: settle what they left, and sign off."""
        celery.wait()
        for child in list(self.children.values()):
            _await_end(child)
        try:
            for lease in queries.leases_of(self.node.id):
                self._settle(lease, LOST)
            nodes.stopped(self.node.id)
        except (DatabaseError, InterfaceError) as error:
            log.warning("sign_off_failed", error=str(error).split("\n")[0])  # the reaper will find them
        kernel.end_orphans(spare=0)
        log.info("node_stopped", node=str(self.node.id))


def _has_ended(child: Child) -> bool:
    """A pidfd is readable once its process has exited, reaped or not."""
    with selectors.DefaultSelector() as now:
        now.register(child.pidfd, selectors.EVENT_READ)
        return bool(now.select(0))


def _await_end(child: Child, at_most_seconds: float = 2.0) -> None:
    """PDEATHSIG has reached it already; a process in a system call may need a moment."""
    with selectors.DefaultSelector() as ending:
        ending.register(child.pidfd, selectors.EVENT_READ)
        ending.select(at_most_seconds)
    child.kill()
