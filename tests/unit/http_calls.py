"""What the tests of ctx.http share: services of this machine, and a client whose pauses are written down."""

import threading
from collections.abc import Iterator

import pytest

from tests.acceptance.slow_services import Services
from workers.deadlines import Deadline
from workers.http import Http


class Stopped(BaseException):
    """Stands for JobTimeout and JobCancelled."""


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with Services() as running:
        yield running


@pytest.fixture
def pauses() -> list[float]:
    """What the client would have slept between tries."""
    return []


@pytest.fixture
def client(pauses: list[float]) -> Http:
    return make_client(pauses)


def make_client(pauses: list[float], seconds: float = 30.0, **options: object) -> Http:
    async def note(pause: float) -> None:
        pauses.append(pause)

    options = {"job_retries": False, "jitter": lambda: 0.5, "sleep": note} | options
    return Http(Deadline.after(seconds), "0193-job", **options)  # type: ignore[arg-type]


def no_thread_remains() -> bool:
    return "weighbridge-calls" not in [thread.name for thread in threading.enumerate()]
