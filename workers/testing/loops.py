"""An event loop that does not wait: where others would sleep, time passes on a FakeClock."""

import asyncio
import selectors
from typing import Any

from workers.testing import FakeClock


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """What the clock raises as time passes, JobTimeout say, ends the loop's run as a signal does on a worker, and the handler's
    coroutine is cancelled."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_Selector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            return super().select(None)  # for another thread, or for what never comes
        if not ready and timeout is not None and timeout > 0:
            self._clock.advance(timeout)
        return ready
