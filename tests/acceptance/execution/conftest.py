"""A stack whose handlers misbehave."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from stack.local import Stack
from tests.acceptance.conftest import QUIET, short_environment
from tests.acceptance.execution import tracker
from tests.acceptance.times import DEFAULT, SHORT, Times

MODULES = "tests.history.job_types,tests.acceptance.execution.job_types"


@pytest.fixture(scope="package", name="times")
def times_of_this_stack(full: bool) -> Times:
    """Some of its jobs sit out the whole grace of a stop."""
    return DEFAULT if full else replace(SHORT, stop_grace=2.0)


@pytest.fixture(scope="package")
def misbehaving(tmp_path_factory: pytest.TempPathFactory, times: Times) -> Iterator[Stack]:
    environ = short_environment(
        **times.environ,
        WEIGHBRIDGE_JOB_MODULES=MODULES,
        WEIGHBRIDGE_ON_ATTEMPT_FAILED=f"{tracker.__name__}.note",
        WEIGHBRIDGE_HEAVY_MAX_WAITING="400",
        # Of workers that are ended after their first job, five jobs may wait for one restart each, of up to 90 s on a busy machine.
        WEIGHBRIDGE_LIGHT_MAX_WAIT_SECONDS="600",
        WEIGHBRIDGE_HEAVY_MAX_WAIT_SECONDS="600",
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


def told_to_the_tracker(stack: Stack, job_id: str) -> list[tuple[int, str]]:
    """Attempt and error, in the order of telling."""
    file = tracker.told(stack.data_dir)
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(line["attempt"], line["error"]) for line in lines if line["job"] == job_id]
