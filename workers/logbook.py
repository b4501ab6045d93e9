"""The last 64 KiB of what a handler logged through ctx.log, kept with its attempt.

It is a file beside the child, so that the keeper can read it when the child did not live to hand it over.
"""

import logging
import os
from pathlib import Path

KEPT_BYTES = 65_536
_OURS = ("weighbridge.", "workers.", "jobs.", "project.")
LOGGER = "weighbridge.job"  # ctx.log writes to this logger, and so to the process's own log as well


class Logbook(logging.Handler):
    """Attached to the job logger once per child; begun anew for each attempt."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w+b", buffering=0)

    def attach(self) -> None:
        """Anew for each attempt: to configure logging, as many libraries do, switches off every logger that there is."""
        for name, logger in logging.root.manager.loggerDict.items():
            if isinstance(logger, logging.Logger) and name.startswith(_OURS):
                logger.disabled = False
        job_logger = logging.getLogger(LOGGER)
        job_logger.setLevel(logging.NOTSET)
        job_logger.propagate = True
        if self not in job_logger.handlers:
            job_logger.addHandler(self)

    def begin(self) -> None:
        os.ftruncate(self._file.fileno(), 0)
        self._file.seek(0)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.write(self.format(record).encode() + b"\n")
            if self._file.tell() > 2 * KEPT_BYTES:
                self._keep_the_end()
        except Exception:
            self.handleError(record)

    def _keep_the_end(self) -> None:
        self._file.seek(-KEPT_BYTES, os.SEEK_END)
        end = self._file.read()
        self.begin()
        self._file.write(end)

    def text(self) -> str:
        self._file.seek(0)
        return tail(self._file.read())


def tail(raw: bytes) -> str:
    """Whole lines of at most 64 KiB, fit to be stored."""
    kept = raw[-KEPT_BYTES:]
    if len(raw) > KEPT_BYTES:
        kept = kept.partition(b"\n")[2] or kept  # of one line that is longer than all that is kept, its end
    return kept.decode(errors="replace").replace("\0", "\ufffd")
