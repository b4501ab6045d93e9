"""The data directory of one stack: made, held by one launcher at a time, cleared of what a killed stack left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from stack import leftovers
from stack.failures import StackError

# How long a start waits for the process manager of a launcher that has just died.
PATIENCE_SECONDS = 5.0


class DataDir:
    """The folder and the lock on it. The lock is the kernel's, so a launcher that dies releases it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # one name, by which its processes are known
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder if need be and hold it. Raises StackError when another launcher does, or it cannot be made."""
        try:
            self._make()
            self._hold()
        except OSError as error:
            raise StackError(
                f"The data directory {self.path} cannot be used: {(error.strerror or str(error)).lower()}."
            ) from error

    def _make(self) -> None:
        if not self.path.is_dir():
            # As root the servers run as another user, who must be able to pass through; what lies in it is closed.
            self.path.mkdir(parents=True)
            self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in ("logs", "metrics", "static", "tmp"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    def _hold(self) -> None:
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode().strip() or "unknown"
            os.close(lock)
            raise StackError(
                f"The data directory {self.path} is in use by a running stack (process {holder})."
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        self._lock = lock

    def close(self) -> None:
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def clear_leftovers(
        self, servers: Callable[[], list[int]], grace_seconds: float, say: Callable[[str], None]
    ) -> None:
        """End what a stack that was killed left running here, workers before servers.

        A process manager that is still at work is told to stop and waited for; if it needs longer, StackError.
        """
        self._wait_for_process_manager()
        found = leftovers.end(lambda: _without(leftovers.marked(self.path), servers()), signal.SIGTERM, grace_seconds)
        found += leftovers.end(servers, signal.SIGINT, 30.0)
        if found:
            say(f"Ended {found} processes of an earlier stack that was killed.")

    def _wait_for_process_manager(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while (pid := self._process_manager()) is not None:
            if time.monotonic() > until:
                raise StackError(
                    f"An earlier stack in {self.path} is still stopping (process {pid}); try again when it has ended."
                )
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            time.sleep(0.2)

    def _process_manager(self) -> int | None:
        try:
            pid = int((self.path / "supervisord.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.path / "supervisor.conf") in command else None

    def empty(self, name: str) -> None:
        """Remove what a folder of ours holds."""
        for item in (self.path / name).iterdir():
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _without(pids: list[int], others: list[int]) -> list[int]:
    return [pid for pid in pids if pid not in others]
