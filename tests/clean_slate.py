"""Fixtures: no test inherits another's wake-ups, kept answers, open circuit breaker or progress connection."""

from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from jobs import broker, classes, costs, notify, queries, refused_lately, tally
from jobs.control import effective
from jobs.turns import pacing
from tests.second_connections import Elsewhere, elsewhere
from workers import progress


@pytest.fixture(autouse=True)
def clean_slate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    deaf = notify.Waiters()
    monkeypatch.setattr(deaf, "_listen", lambda: None)  # its thread would outlive the test, with a connection
    monkeypatch.setattr(notify, "WAITERS", deaf)
    queries.drain.forget()  # type: ignore[attr-defined]
    pacing.forget()
    monkeypatch.setattr(pacing, "JITTER_SHARE", 0.0)  # so that seconds can be compared
    queries.class_view.forget()  # type: ignore[attr-defined]
    effective.overrides.forget()  # type: ignore[attr-defined]
    costs.mean_seconds.forget()  # type: ignore[attr-defined]
    monkeypatch.setattr(tally, "WRITTEN_AFTER_SECONDS", 3_600.0)  # its thread would outlive the test, with a connection
    refused_lately.HERE.forget()
    broker.breaker.close()
    forget_queues()
    yield
    tally.forget()
    if progress._own is not None:  # else the test database could not be dropped at the end
        progress._own.close()
        progress._own = None


def forget_queues() -> None:
    """What a FLUSHALL does to our queues, without touching what else a developer's server may hold."""
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        server.delete(
            *classes.declared(), classes.CONTROL, *server.keys("_kombu.binding.*"), *server.keys("weighbridge:turns*")
        )


@pytest.fixture
def other() -> Iterator[Elsewhere]:
    """A second connection."""
    with elsewhere() as connected:
        yield connected
