"""How often one client may submit: counted in Redis, over the last minute (P32). How many jobs it may have at once is admission's.

Both are off unless an operator sets them. While Redis is away nobody is held back, and that is counted.
"""

import math
import time
from dataclasses import dataclass
from functools import cache

from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from jobs import broker, telemetry
from jobs.models import ApiClient

WINDOW_SECONDS = 60


@dataclass(frozen=True)
class Rate:
    """Where a client stands: whether this submit may pass, of how many a minute, how many are left, and in how many seconds there is
    one more. `passed`: of the jobs that it brings, how many may."""

    allowed: bool
    limit: int
    remaining: int
    more_in_seconds: int
    passed: int = 1


def submitted(client: ApiClient) -> int | None:
    """Jobs of the last minute, as they are counted. None for a client without a limit, and while nobody can count."""
    if client.submits_per_minute is None:
        return None
    item, name = RateLimitItemPerMinute(client.submits_per_minute), str(client.pk)
    try:
        left = broker.breaker.call(_limiter().get_window_stats, item, name).remaining
    except broker.AWAY:
        return None
    return max(0, client.submits_per_minute - int(left))


def count_submit(client: ApiClient, jobs: int = 1, some: bool = False) -> Rate | None:
    """Of so many jobs all may pass or none, or, with `some`, as many as are left. None for a client without a limit, and while nobody can count."""
    if client.submits_per_minute is None:
        return None
    item, name = RateLimitItemPerMinute(client.submits_per_minute), str(client.pk)
    try:
        passed = _counted(item, name, jobs)
        stats = broker.breaker.call(_limiter().get_window_stats, item, name)
        if some and not passed and (passed := _counted(item, name, min(stats.remaining, jobs))):
            stats = broker.breaker.call(_limiter().get_window_stats, item, name)
    except broker.AWAY:
        telemetry.RATE_UNKNOWN.inc()
        return None
    # No wall clock of ours decides: the library's own stamp is taken back. Of what was counted just now it says 0 for a whole window.
    more_in = math.ceil(stats.reset_time - time.time())
    more_in = more_in if more_in > 0 else WINDOW_SECONDS
    return Rate(passed > 0, client.submits_per_minute, stats.remaining, min(more_in, WINDOW_SECONDS), passed)


def _counted(item: RateLimitItemPerMinute, name: str, jobs: int) -> int:
    """All of them, or none."""
    return jobs if jobs and broker.breaker.call(_limiter().hit, item, name, cost=jobs) else 0


@cache
def _limiter() -> SlidingWindowCounterRateLimiter:
    pool = broker.client().connection_pool
    return SlidingWindowCounterRateLimiter(RedisStorage("redis://", pool, key_prefix="weighbridge:rate"))
