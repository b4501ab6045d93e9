"""Ctrl-C, TERM and a closed terminal, as the launcher understands them: stop in order; asked again, hurry."""

from __future__ import annotations

import signal
from types import FrameType


class StopRequested(BaseException):
    """The first request to stop, raised wherever the launcher happens to be."""


class StopSignals:
    """Turns the first signal into StopRequested and counts the later ones. Install it in the main thread."""

    def __init__(self) -> None:
        self._requests = 0
        self._stopping = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._received)

    def begin_stopping(self) -> None:
        """From here on no signal interrupts; one more than has been needed makes us hurry."""
        self._stopping = True

    def hurry(self) -> bool:
        return self._requests > 1

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._requests += 1
        if self._requests == 1 and not self._stopping:
            self._stopping = True
            raise StopRequested
