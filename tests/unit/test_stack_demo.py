"""The demo's figures are right and it fails when something is not as promised."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stack import demo_arrays
from stack.demo_burst import SLOW_SECONDS, BurstReport, Pace, Timing, timing
from stack.demo_jobs import BERLIN52, Visit
from stack.demo_screen import Screen, burst_lines, outcome, table

QUICK = Pace(Timing(0.02, 0.03), Timing(0.001, 0.002))
GOOD = BurstReport(17, 9, QUICK, QUICK, accepted=9, refused=8, retry_after=[5] * 7 + [9])


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert timing([float(n) for n in range(20, 0, -1)]) == Timing(10.0, 19.0)
    assert timing([3.0]) == Timing(3.0, 3.0)


def test_a_burst_as_promised_holds_no_surprise() -> None:
    assert GOOD.surprises() == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"refused": 0, "retry_after": []}, "Nothing was refused"),
        ({"retry_after": [5] * 7}, "only 7 said in Retry-After"),
        ({"other": {"500 oops": 2}}, "2 submissions of the burst were answered 500 oops"),
        ({"drained": False}, "was not empty"),
        ({"during": Pace(Timing(0.1, SLOW_SECONDS + 0.1), QUICK.healthz)}, "took more than 1 s"),
        ({"during": Pace(QUICK.light, Timing(0.1, SLOW_SECONDS + 0.1))}, "took more than 1 s"),
    ],
)
def test_a_broken_promise_is_a_surprise(changed: dict[str, Any], says: str) -> None:
    surprises = replace(GOOD, **changed).surprises()
    assert len(surprises) == 1
    assert says in surprises[0]


def test_both_paces_and_the_refusals_are_shown() -> None:
    text = "\n".join(burst_lines(GOOD))
    assert "refused (503)             8, Retry-After 5 to 9 s" in text
    assert text.count("p50 20 ms, p95 30 ms") == 2


def _visit(state: str, **more: Any) -> Visit:
    job = {"id": "1", "cost_class": "light", "state": state, "progress": None, "result": None, "error": None, **more}
    return Visit("probe.sleep", {}, job)


def test_the_table_shows_waits_runs_and_what_came_out() -> None:
    timings = {"wait_seconds": 0.126, "run_seconds": 1.0, "cpu_seconds": None}
    lines = table([_visit("succeeded", timings=timings, result={"tour": [1, 2, 3], "length": 12})])
    assert lines[0].split("  ")[0] == "job"
    assert "0.13" in lines[2]
    assert "1.00" in lines[2]
    assert "a tour of 3 stops, length 12" in lines[2]


def test_a_failed_job_shows_why() -> None:
    job = _visit("failed", error={"code": "timeout", "message": "it took too long"}).job
    assert outcome(job) == "timeout: it took too long"


def test_off_a_terminal_each_change_is_one_line_and_no_change_none() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    for state in ("queued", "queued", "running"):
        screen.show([_visit(state)])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert "queued" in lines[0]
    assert "running" in lines[1]
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_the_lines_are_redrawn_in_place() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    screen = Screen(stream)
    screen.show([_visit("queued"), _visit("queued")])
    screen.show([_visit("running"), _visit("queued")])
    assert stream.getvalue().count("\x1b[2A") == 1


def test_a_job_that_left_files_shows_their_sizes() -> None:
    files = [{"name": "chart.png", "bytes": 34_567}, {"name": "statistics.csv", "bytes": 9}]
    columns = [{"numeric": True}, {"numeric": False}]
    job = _visit("succeeded", result={"rows": 344, "columns": columns}, artifacts=files).job
    assert outcome(job) == "344 rows, 2 columns, 1 of them numbers; chart.png 35 kB; statistics.csv 1 kB"
    job = _visit("succeeded", result={"method": "fft", "shape": [3, 4]}, artifacts=[]).job
    assert outcome(job) == "a map of 3 × 4, by fft"


def test_every_location_of_the_demos_map_is_on_it_and_its_bell_changes_no_sum() -> None:
    array, kernel = (
        np.load(io.BytesIO(npy)) for npy in (demo_arrays.map_of_locations(BERLIN52.read_text()), demo_arrays.bell())
    )
    assert (array.shape, array.sum()) == ((demo_arrays.DOWN, demo_arrays.ACROSS), 52)
    assert kernel.sum() == pytest.approx(1)
