"""The one place that publishes. A wake-up names a class and nothing else; losing one loses no job."""

from functools import cache
from typing import Any

import pybreaker
import redis
import structlog
from celery import current_app
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs import telemetry

TASK = "weighbridge.wake_up"
BREAK_SECONDS = 5.0  # how long nobody tries Redis after it failed

log = structlog.get_logger(__name__)

# One per process, for every call to Redis outside Celery's consumer: the first caller pays the
# time-out, the rest know at once (P32).
breaker = pybreaker.CircuitBreaker(fail_max=1, reset_timeout=BREAK_SECONDS, throw_new_error_on_trip=False)


def after_commit(cost_class: str) -> None:
    """Send a wake-up once the caller's transaction is committed; at once if there is none."""
    transaction.on_commit(lambda: publish(cost_class))


def publish(cost_class: str, count: int = 1) -> bool:
    """Whether all were sent. Never raises for Redis: the job is safe, the top-up sweep will wake it."""
    try:
        for _ in range(count):
            breaker.call(_send, cost_class)
    except Exception as error:  # whatever a broken broker raises, the job is already committed
        telemetry.PUBLISH_FAILED.inc()
        if not isinstance(error, pybreaker.CircuitBreakerError):
            log.warning("wake_up_not_sent", cost_class=cost_class, error=type(error).__name__)
        return False
    return True


def _send(cost_class: str) -> None:
    current_app.send_task(TASK, args=[cost_class], queue=cost_class, retry=False)


def queue_length(cost_class: str) -> int | None:
    """Wake-ups that wait in the broker; None if it does not answer."""
    try:
        return int(breaker.call(lambda: _client().llen(cost_class)))
    except (redis.RedisError, pybreaker.CircuitBreakerError):
        return None


def broker_answers() -> bool:
    try:
        breaker.call(lambda: _client().ping())
    except (redis.RedisError, pybreaker.CircuitBreakerError):
        return False
    return True


def _client() -> Any:
    return _connected(settings.WEIGHBRIDGE_REDIS_URL)


@cache
def _connected(url: str) -> Any:
    return redis.Redis.from_url(url, socket_connect_timeout=0.5, socket_timeout=0.5, retry=Retry(NoBackoff(), 0))
