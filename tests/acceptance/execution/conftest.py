"""A stack whose handlers misbehave."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack.local import Stack
from tests.acceptance.conftest import QUIET, short_environment

MODULES = "tests.history.job_types,tests.acceptance.execution.job_types"


@pytest.fixture(scope="package")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = short_environment(
        WEIGHBRIDGE_JOB_MODULES=MODULES, WEIGHBRIDGE_HEAVY_MAX_WAITING="400", WEIGHBRIDGE_STOP_GRACE_SECONDS="2"
    )
    running = Stack(tmp_path_factory.mktemp("misbehaving") / "data", environ, without=QUIET)
    running.start()
    yield running
    running.erase()


@pytest.fixture
def stack(misbehaving: Stack) -> Stack:
    """Whole at the start of each test."""
    misbehaving.wait_ready(60)
    return misbehaving


@pytest.fixture
def word(tmp_path: Path) -> Path:
    """A file that a body may leave a word in."""
    return tmp_path / "word"


Attempts = list[tuple[int, str, str, str, str]]


def attempts_of(stack: Stack, job_id: str) -> Attempts:
    """Number, outcome, error code, detail and log of each attempt of a job, in order."""
    with psycopg.connect(stack.database_url) as database:
        return database.execute(
            "SELECT number, outcome, error_code, error_detail, log FROM jobs_attempt WHERE job_id = %s ORDER BY number",
            [job_id],
        ).fetchall()
