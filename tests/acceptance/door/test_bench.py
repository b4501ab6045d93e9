"""What bin/bench runs, in small: each measurement comes to its end, says all its figures and leaves nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import held, serving, waiting
from bench.ground import Ground
from bench.ways import OTHERS, OURS
from stack.local import Stack
from tests import processes
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.recorder import SUBMISSION

LABELS = {SUBMISSION: "bench"}  # its jobs are in no history


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@pytest.fixture
def ground(stack: Stack, api: Api, diary: Diary) -> Ground:
    """Jobs of `heavy` only wait, because both its processes are held until the test is over."""
    for name in ("hold0", "hold1"):
        api.submit("tests.note", diary.params(name, cost_class="heavy", held=True))
    diary.wait_until_began("hold0", "hold1")
    return Ground(stack, waits_in="heavy", runs_in="light", labels=LABELS)


def test_the_ways_to_serve_take_turns_and_each_is_told(ground: Ground, stack: Stack, tmp_path: Path) -> None:
    size = serving.Size(rounds=2, submits=20, reads=20, connections=4, web_processes=1)
    report = serving.measured(ground, size, tmp_path)
    names = [OURS, *OTHERS]
    for way in (report.submits, report.reads):
        assert list(way) == names
        assert {len(one.latencies) for passes in way.values() for one in passes.passes} == {20}
        assert {len(passes.passes) for passes in way.values()} == {size.rounds}
    assert all(memory.private > 0 for memory in report.memory.values())
    _says(report.lines(), *names, "÷", "p99")
    assert processes.that_know(tmp_path) == {}, "the servers that it started have ended"


def test_callers_who_wait_are_counted_held_and_seen_to_leave(ground: Ground, stack: Stack) -> None:
    report = held.measured(ground, held.Size(rounds=1, callers=12, reads=20))
    (found,) = report.rounds
    assert min(found.closed_seconds, found.withdrawn_seconds) > 0
    _says(report.lines(), "beside 12 who wait", "KiB each", "closed", "withdrawn")
    assert ground.waiting_jobs() == [], "what no worker touched is gone"


def test_who_waits_is_told_sooner_than_who_asks(ground: Ground) -> None:
    report = waiting.measured(ground, waiting.Size(rounds=1, waits=3, polls=2, reads=5))
    assert (len(report.waited), len(report.polled), len(report.read)) == (3, 2, 5)
    assert min([*report.waited, *report.polled]) > 0, "nobody knows before the end"
    _says(report.lines(), "the caller waits", "asks every 1 s")


def _says(lines: Sequence[str], *words: str) -> None:
    text = "\n".join(lines)
    print(text)
    for word in words:
        assert word in text
    assert "nan" not in text
