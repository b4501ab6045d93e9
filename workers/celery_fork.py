"""Celery as a fork of its keeper, which has loaded nearly all that Celery needs (P15).

A program of its own would load it once more: two seconds of CPU, and as much memory again, for each worker.
"""

import atexit
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from threading import Lock
from typing import NoReturn

from workers import kernel

_OF_THE_KEEPER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # what it has handlers for


class Fork:
    """A process that we forked. May be asked and told from any thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)  # it is not waited for yet, so there it is
        self._status: int | None = None
        self._reaping = Lock()

    @classmethod
    def of(cls, act: Callable[[], None]) -> "Fork":
        """`act` in a process of its own, which dies with us; from the main thread, while there is no other.

        It is in a session of its own, so that a Ctrl-C in the terminal reaches only us.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        # Or a signal that is meant for the fork could meet our handlers in it, and be forgotten.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_THE_KEEPER)
        pid = os.fork()
        if pid == 0:
            _act_and_end(act, parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(pid)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        with self._reaping:
            if self._status is None:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                self._status = os.waitstatus_to_exitcode(status) if ended else None
            return self._status

    def wait(self) -> None:
        select.select([self._pidfd], [], [])
        self.poll()

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass


def _act_and_end(act: Callable[[], None], parent: int) -> NoReturn:
    """With signals as a program of its own has them at its start, and without a return into what the keeper was doing."""
    status = os.EX_SOFTWARE
    try:
        kernel.die_with_parent()
        if os.getppid() != parent:  # it died before that
            os._exit(status)
        os.setsid()
        _hear_as_at_a_start()
        act()
        status = os.EX_OK
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else os.EX_OK if end.code is None else os.EX_SOFTWARE
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _hear_as_at_a_start() -> None:
    alarm = signal.set_wakeup_fd(-1)
    if alarm >= 0:
        os.close(alarm)
    for number in _OF_THE_KEEPER:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
