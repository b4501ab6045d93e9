"""What a handler holds when its job is ended for it goes with the job: files, sockets, threads, processes, places."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.acceptance.slow_services import Counts, Services, hanging
from tests.api_client import Api
from tests.waiting import eventually
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline

LIMIT, BOUND = 1.0, 3.0
DEADLINE = 3.0  # from the submit: the process that takes it may only just be starting
ENDS: dict[str, tuple[dict[str, float], tuple[str, str]]] = {
    "timeout": ({"timeout_seconds": LIMIT}, ("failed", "timeout")),
    "deadline": ({"deadline_seconds": DEADLINE}, ("failed", "deadline")),
    "cancel": ({}, ("cancelled", "")),
}


@pytest.fixture
def service() -> Iterator[tuple[str, Counts]]:
    """Its address, and how many connections it has."""
    with Services() as services:
        yield services.add(hanging)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", ["hold", "hold a thread", "hold and swallow"])
def test_nothing_that_it_held_outlives_a_job_that_was_cut_short(
    api: Api, word: Path, service: tuple[str, Counts], end: str, how: str
) -> None:
    fields, expected = ENDS[end]
    pid = _must_hold_nothing_after(api, word, service, how, expected, fields)
    eventually(lambda: not processes.lives(pid), BOUND)


def test_nothing_that_it_held_outlives_a_job_that_failed_and_its_process_goes_on(
    api: Api, word: Path, service: tuple[str, Counts]
) -> None:
    pid = _must_hold_nothing_after(api, word, service, "hold and fail", ("failed", "held"), {})
    assert processes.lives(pid), "there was nothing to end it for"


def _must_hold_nothing_after(
    api: Api,
    word: Path,
    service: tuple[str, Counts],
    how: str,
    expected: tuple[str, str],
    fields: dict[str, float],
) -> int:
    """The pid of the process that ran it."""
    url, counts = service
    job_id = api.submit("tests.behave", {"how": how, "note": str(word), "url": url}, **fields)
    eventually(lambda: counts.now == 1, every_seconds=0.01)  # the call that has the place; all else was there before it
    told = json.loads(word.read_text())
    held, pid = set(told["held"]), told["pid"]
    assert held <= _open_in(pid)
    if expected == ENDS["cancel"][1]:
        assert api.cancel(job_id).status_code == 202
    assert _end_of(api.ended(job_id)) == expected

    eventually(lambda: not held & _open_in(pid), BOUND)
    eventually(lambda: not processes.lives(told["child"]), BOUND)
    eventually(lambda: counts.open_connections == 0, BOUND)
    with Bulkhead(word.parent, "held", 1).hold(Deadline.after(BOUND)):
        pass
    return int(pid)


def _end_of(job: dict[str, Any]) -> tuple[str, str]:
    return job["state"], (job["error"] or {}).get("code", "")


def _open_in(pid: int) -> set[str]:
    """Names of what a process has open, sockets by their inodes; nothing if it is gone."""
    folder, names = f"/proc/{pid}/fd", set()
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return set()
    for descriptor in descriptors:
        try:
            names.add(os.readlink(f"{folder}/{descriptor}"))
        except OSError:  # closed meanwhile
            continue
    return names
