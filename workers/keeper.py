"""The outer process of a worker node (P15).

It starts Celery and ends it, says in the database that the node lives, and looks after the attempts that run
(`custody.py`). Celery dies with it. What could take long, sweeps and the broker's queues, is its clockwork's, in a
thread of its own, so that it cannot hold up a lease.
"""

import os
import selectors
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from threading import Lock, Thread
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import close_old_connections, connection, connections
from django.db.utils import DatabaseError, InterfaceError

from jobs import classes, costs, lifecycle, nodes, registry
from jobs.row_locks import RowHeld, not_waiting
from workers import budget, equipment, kernel, slots, strays
from workers.aftermath import Aftermath
from workers.budget import RetryBudget
from workers.celery_fork import Fork
from workers.children import CLASS_VARIABLE, READY_VARIABLE
from workers.clockwork import Clockwork
from workers.custody import SETTLING_SECONDS, Custody
from workers.slots import Phase, SharedSlots

log = structlog.get_logger(__name__)

CONTROL_PROCESSES = 1
CONTROL_CEILING_SECONDS = 60.0
GRACE_LOOK_SECONDS = 0.1
LOOK_SECONDS = 1.0  # a beat takes milliseconds, unless its database does not answer
SIGN_OFF_SECONDS = 5.0  # after the grace, for the books to be closed; a process manager waits for ten
# A broker that is there takes them in milliseconds; else the other nodes' keepers send them.
LAST_WAKE_UPS_SECONDS = 2.0


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
        self.ceiling_seconds = declared.ceiling_seconds if declared else CONTROL_CEILING_SECONDS
        self.grace_seconds = classes.stop_grace_seconds(cost_class)
        self.folder: Path = settings.WEIGHBRIDGE_DATA_DIR / "nodes" / str(self.node.id)
        self.slots = SharedSlots.create(self.node.processes, strays.memory_name())
        self.budget = RetryBudget.create()
        self.clockwork = self._new_clockwork()
        self.selector = selectors.DefaultSelector()
        self.celery: Fork | None = None
        self.ready = False
        self.blameless = False  # whether what still runs at the end is released rather than lost
        self.stop_by: float | None = None  # monotonic; set by the first TERM
        self.grace_over = False  # Celery is being ended
        self._looking = Lock()  # held during a beat

    def run(self) -> int:
        """Until Celery ends, by itself or because we were told to stop; the exit status."""
        log.info("node_starts", node=str(self.node.id), cost_class=self.node.cost_class, processes=self.node.processes)
        self._become_keeper()
        self.celery = celery = self._start_celery()
        aftermath = Aftermath(
            self.folder,
            self.budget,
            end_orphans=lambda: kernel.end_orphans(spare=celery.pid),
            came_back=lambda: self.clockwork.jobs_came_back(),
        )
        self.custody = Custody(self.node.id, self.slots, aftermath, self.selector)
        if self.stop_by is not None:  # told to, while there was nothing to stop yet
            celery.terminate()
        Thread(target=self._keep_the_grace, args=(celery,), name="grace", daemon=True).start()
        self.clockwork.start()
        self._warn_of_what_may_expire()
        while celery.poll() is None:
            self._beat(celery)
            self._keep_the_clockwork_going()
            if self.clockwork.celery_has_stopped:
                self._give_up_on(celery)
            self._rest()
        self._close_books(celery)
        self.clockwork.stop()
        self.clockwork.join(LAST_WAKE_UPS_SECONDS)
        return 0 if self.stop_by is not None else 1

    # ── Starting ─────────────────────────────────────────────────────────────────────────────────────

    def _become_keeper(self) -> None:
        kernel.adopt_orphans()
        strays.end_those_of_dead_keepers()
        strays.remove_folders_of_dead_keepers(self.folder.parent)
        strays.make_folder(self.folder)
        awake, alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(awake, selectors.EVENT_READ, lambda fd: os.read(fd, 512))
        signal.set_wakeup_fd(alarm)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does with SIGHUP
                signal.signal(number, self._told_to_stop)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else Celery, which inherits it, would never see a child end
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    def _warn_of_what_may_expire(self) -> None:
        """P5: nothing but their number bounds jobs of which it is not known how long they take."""
        name = self.node.cost_class
        if name == classes.CONTROL or (own := classes.get(name)).longest_queue_seconds <= own.max_wait_seconds:
            return
        try:
            unknown = costs.unknown_in(own)
        except (DatabaseError, InterfaceError):
            return  # a warning is no reason to wait for it
        if unknown:
            log.warning(
                "jobs_may_expire",
                cost_class=name,
                max_waiting=own.max_waiting,
                takes_seconds=own.longest_queue_seconds,
                max_wait_seconds=own.max_wait_seconds,
                cost_unknown=unknown,
                hint="As many may be accepted, and what has not started in its time expires. Declare a cost, or let each type run twenty times.",
            )

    def _start_celery(self) -> Fork:
        """Before we start a thread, which a fork would not have."""
        told, tell = os.pipe()
        self.selector.register(told, selectors.EVENT_READ, self._celery_is_ready)
        connections.close_all()  # a team's app may have opened one while it was loaded, and two would write into it
        celery = Fork.of(lambda: self._become_celery(tell))
        os.close(tell)
        return celery

    def _become_celery(self, tell: int) -> None:
        """What is the keeper's alone goes; what the children need comes to them by their environment."""
        for key in [*self.selector.get_map().values()]:
            os.close(key.fd)
        self.selector.close()
        os.environ.update(self._environment(tell))
        kernel.be_called("celery")
        from workers import celery_process  # only here: the keeper has no use for it

        command = ("worker", *self._options())
        sys.argv = [celery_process.__file__, *command]  # Celery starts itself anew by it, told to by a HUP
        celery_process.main(*command)

    def _environment(self, tell: int) -> dict[str, str]:
        return {
            equipment.NODE_VARIABLE: str(self.node.id),
            equipment.FOLDER_VARIABLE: str(self.folder),
            strays.KEEPER_VARIABLE: strays.myself(),
            slots.FD_VARIABLE: str(self.slots.fd),
            budget.FD_VARIABLE: str(self.budget.fd),
            CLASS_VARIABLE: self.node.cost_class,
            READY_VARIABLE: str(tell),
        }

    def _options(self) -> list[str]:
        return [
            *("--queues", self.node.cost_class),
            *("--hostname", f"{self.node.cost_class}-{str(self.node.id)[:8]}@%h"),
            *("--concurrency", str(self.node.processes)),
            *("--pool", "prefork", "--time-limit", str(self._last_fence_seconds())),
            *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
        ]

    def _last_fence_seconds(self) -> float:
        """Celery's own time limit (P30): only a keeper that stands still lets it be reached."""
        after_the_limit = settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS + lifecycle.HARD_DEADLINE_MARGIN_SECONDS
        return float(self.ceiling_seconds + after_the_limit + settings.WEIGHBRIDGE_LEASE_SECONDS + 1)

    # ── One beat ─────────────────────────────────────────────────────────────────────────────────────

    def _beat(self, celery: Fork) -> None:
        with self._looking:
            if self.grace_over:
                return  # what the children run now has not vanished: it is released once they are gone
            kernel.end_orphans(spare=celery.pid)
            try:
                close_old_connections()
                self._say_we_live()
                self.custody.look(celery.pid)
            except (DatabaseError, InterfaceError) as error:
                # The leases are long and nobody reaps while the database is away (P17): try again next beat.
                log.warning("beat_failed", error=str(error).split("\n")[0])
                connection.close()

    def _patience_is_over(self) -> bool:
        if self.stop_by is None or time.monotonic() < self.stop_by:
            return False
        settles = any(seen.phase is Phase.SETTLING for seen in self.slots.all())
        return not settles or time.monotonic() >= self.stop_by + SETTLING_SECONDS

    def _say_we_live(self) -> None:
        """Somebody may hold the node's row: no lease waits for that."""
        try:
            with not_waiting():
                if self.ready:
                    nodes.beat(self.node)
                if self.stop_by is not None:
                    nodes.stopping(self.node.id)
        except RowHeld:
            log.info("row_held", node=str(self.node.id))

    # ── Between beats ────────────────────────────────────────────────────────────────────────────────

    def _rest(self) -> None:
        """Sleep until the next beat; wake for a signal, for Celery's readiness, for a child that ends."""
        for key, _ in self.selector.select(self._until_next_beat()):
            key.data(key.fileobj)

    def _until_next_beat(self) -> float:
        if self.stop_by is None:
            return float(settings.WEIGHBRIDGE_BEAT_SECONDS)
        return min(float(settings.WEIGHBRIDGE_BEAT_SECONDS), max(0.05, self.stop_by - time.monotonic()))

    def _celery_is_ready(self, fd: int) -> None:
        self.ready = os.read(fd, 1) != b""  # empty: Celery ended before it was
        self.selector.unregister(fd)
        os.close(fd)

    def _new_clockwork(self) -> Clockwork:
        return Clockwork(self.node, self.slots, self.folder.parent)

    def _keep_the_clockwork_going(self) -> None:
        if not self.clockwork.is_alive():
            log.error("clockwork_ended", node=str(self.node.id))
            self.clockwork = self._new_clockwork()
            self.clockwork.start()

    def _give_up_on(self, celery: Fork) -> None:
        """It consumes nothing though there is work: end it, give back what it runs; we are restarted (P24)."""
        log.error("celery_consumes_nothing", node=str(self.node.id))
        self.blameless = True
        self._end(celery)

    def _end(self, celery: Fork) -> None:
        """Its children follow it. From here on no beat takes them for vanished."""
        self.grace_over = True
        celery.kill()

    # ── Stopping ─────────────────────────────────────────────────────────────────────────────────────

    def _told_to_stop(self, number: int, frame: object) -> None:
        if self.stop_by is None:
            self.stop_by = time.monotonic() + self.grace_seconds
            self.slots.say_stopping()
            if self.celery is not None:
                self.celery.terminate()  # it takes no more, lets running jobs finish, and ends

    def _keep_the_grace(self, celery: Fork) -> None:
        """In a thread of its own: the main one may be waiting for a database that does not answer."""
        while not self._patience_is_over():
            time.sleep(GRACE_LOOK_SECONDS)
        if celery.poll() is None:
            log.warning("grace_over", node=str(self.node.id))
            looks_elsewhere = self._looking.acquire(timeout=LOOK_SECONDS)
            self._end(celery)
            if looks_elsewhere:
                self._looking.release()
        time.sleep(SIGN_OFF_SECONDS)
        log.warning("sign_off_failed", node=str(self.node.id))
        os._exit(1)  # what is left of its jobs is for the reaper

    def _close_books(self, celery: Fork) -> None:
        """Celery has ended, and its children with it: settle what they left, and sign off."""
        celery.wait()
        self.custody.await_ends()
        kernel.end_orphans()
        try:
            blameless = self.blameless or self.stop_by is not None
            self.custody.part_with(blameless)
            with not_waiting():
                nodes.stopped(self.node.id)
        except (DatabaseError, InterfaceError, RowHeld) as error:
            log.warning("sign_off_failed", error=str(error).split("\n")[0])  # the reaper will find them
        shutil.rmtree(self.folder, ignore_errors=True)
        log.info("node_stopped", node=str(self.node.id))
