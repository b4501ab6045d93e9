"""Redis outside Celery's consumer: every call is bounded, made once, and behind one circuit breaker per process (P32).

Nothing that is kept there is needed to be right (P31).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pybreaker
import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

BREAK_SECONDS = 5.0  # how long nobody tries Redis after it failed
CALL_SECONDS = 0.5  # to connect, and for each answer

# The first caller pays the time-out, the rest know at once.
breaker = pybreaker.CircuitBreaker(fail_max=1, reset_timeout=BREAK_SECONDS, throw_new_error_on_trip=False)

AWAY = (redis.RedisError, pybreaker.CircuitBreakerError)  # what `ask` raises when Redis does not answer


def ask(call: Callable[[Any], Any]) -> Any:
    """Call with the process's client. Raises one of AWAY."""
    return breaker.call(lambda: call(client()))


def answers() -> bool:
    try:
        ask(lambda client: client.ping())
    except AWAY:
        return False
    return True


def client() -> Any:
    """Past the breaker: for `ask`, and for who listens."""
    return _connected(settings.WEIGHBRIDGE_REDIS_URL)


@cache
def _connected(url: str) -> Any:
    bounds = {"socket_connect_timeout": CALL_SECONDS, "socket_timeout": CALL_SECONDS}
    return redis.Redis.from_url(url, **bounds, retry=Retry(NoBackoff(), 0))
