"""Whether Celery has stopped consuming although there is work (P24). Redis being away is no reason to restart anybody."""

import time
from collections.abc import Callable
from dataclasses import dataclass

STUCK_SECONDS = 60.0
AT_MOST_EVERY_SECONDS = 600.0  # a restart that did not help is not tried again at once


@dataclass(frozen=True)
class Sight:
    """What a keeper sees at one moment. `wake_ups` is None when the broker does not answer."""

    wake_ups: int | None
    claimable: int
    free_processes: int
    starts: int  # attempts that this node has begun so far

    @property
    def idle_beside_work(self) -> bool:
        return bool(self.wake_ups) and self.claimable > 0 and self.free_processes > 0


class Consumption:
    """Fed once a second or so; `last_restart` in the clock's seconds, None if there was none."""

    def __init__(self, last_restart: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_restart = last_restart
        self._since: float | None = None
        self._starts = -1

    def has_stopped(self, sight: Sight) -> bool:
        now = self._clock()
        if not sight.idle_beside_work or sight.starts != self._starts:
            self._since, self._starts = None, sight.starts
            if not sight.idle_beside_work:
                return False
        if self._since is None:
            self._since = now
        rested = self._last_restart is None or now - self._last_restart >= AT_MOST_EVERY_SECONDS
        return rested and now - self._since >= STUCK_SECONDS
