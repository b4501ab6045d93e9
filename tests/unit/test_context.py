"""What a handler reads from its context, by a clock that the test turns."""

import io
from typing import Any
from uuid import uuid4

import pytest

from jobs.registry import NoParams
from workers import progress
from workers.artifacts import Artifacts, Memory
from workers.context import JobContext


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reports() -> list[tuple[float, str]]:
    return []


@pytest.fixture
def ctx(clock: Clock, reports: list[tuple[float, str]]) -> JobContext[NoParams]:
    def report(fraction: float, note: str) -> None:
        reports.append((fraction, note))

    log: Any = None
    return JobContext(
        NoParams(),
        job_id=uuid4(),
        attempt=1,
        limit_seconds=30,
        log=log,
        report=report,
        once=lambda key, fn: None,
        clock=clock,
        artifacts=Artifacts(Memory()),
        open_upload=lambda upload_id: io.BytesIO(),
    )


@pytest.mark.parametrize(("passed", "left"), [(0, 30), (12.5, 17.5), (29.75, 0.25), (30, 0), (31, 0)])
def test_what_remains_runs_down_to_zero_and_no_further(
    ctx: JobContext[NoParams], clock: Clock, passed: float, left: float
) -> None:
    clock.now += passed
    assert ctx.remaining() == left


def test_progress_is_reported_at_most_once_a_second(
    ctx: JobContext[NoParams], clock: Clock, reports: list[tuple[float, str]]
) -> None:
    for quarter in range(12):  # a call every quarter of a second, for three seconds
        ctx.progress(quarter / 12)
        clock.now += 0.25
    assert reports == [(0, ""), (4 / 12, ""), (8 / 12, "")]


@pytest.mark.parametrize(("after", "reported"), [(0.99, 1), (1.0, 2)])
def test_a_second_later_progress_is_reported_again(
    ctx: JobContext[NoParams], clock: Clock, reports: list[tuple[float, str]], after: float, reported: int
) -> None:
    ctx.progress(0.1)
    clock.now += after
    ctx.progress(0.2)
    assert len(reports) == reported


@pytest.mark.parametrize(
    ("given", "shown"), [(-1, 0), (0, 0), (0.5, 0.5), (1, 1), (7, 1), (float("inf"), 1), (float("nan"), 0)]
)
def test_a_fraction_is_kept_between_0_and_1(
    ctx: JobContext[NoParams], reports: list[tuple[float, str]], given: float, shown: float
) -> None:
    ctx.progress(given)
    assert reports == [(shown, "")]


@pytest.mark.parametrize(
    ("note", "stored"),
    [("half way", "half way"), ("é" * 300, "é" * 200), ("\0" * 100, "\\x00" * 50), ("\udcff", "\\udcff")],
)
def test_a_note_fits_its_column_also_when_it_grows_by_what_is_made_visible(note: str, stored: str) -> None:
    assert progress.shown(note) == stored
