"""The demo's jobs: what is submitted, and how it is followed to its end over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jobs.states import TERMINAL
from stack import demo_arrays
from stack.http_calls import Caller, Reply

DATA = Path(__file__).parent / "demo_data"  # where each file is from, its README says
BERLIN52, PENGUINS = DATA / "berlin52.tsp", DATA / "penguins.csv"
LOOK_SECONDS = 0.2
# All of the demo's jobs together; a machine with one slow core needs some 20 s.
PATIENCE_SECONDS = 300.0


class Surprise(Exception):
    """Something the demo did not expect, as a sentence."""


@dataclass
class Visit:
    """One job's way through the demo. `job` is its last known body in the API's form.

    `files`: by the name of a param, what is uploaded for it to name.
    """

    type: str
    params: dict[str, Any]
    job: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.job.get("state") in TERMINAL


class Watcher(Protocol):
    def show(self, visits: Sequence[Visit]) -> None: ...


def tour_jobs(search_seconds: float) -> list[Visit]:
    """A real heavy job, two that read uploads and leave files, one type whose weight depends on its params, and two probes."""
    problem = BERLIN52.read_text()
    density = {"array": demo_arrays.map_of_locations(problem), "kernel": demo_arrays.bell()}
    return [
        Visit("routes.optimize", {"tsplib": problem, "seconds": search_seconds}),
        Visit("reports.statistics", {}, files={"file": PENGUINS.read_bytes()}),
        Visit("arrays.convolve", {"mode": "same"}, files=density),
        Visit("numbers.sum_squares", {"n": 1_000}),
        Visit("numbers.sum_squares", {"n": BIG_N}),
        Visit("probe.sleep", {"seconds": 1.0}),
        Visit("probe.spin", {"seconds": 1.0, "cost_class": "heavy"}),
    ]


# Large enough to be heavy, small enough to be done in seconds.
BIG_N = 20_000_000


def submit_all(caller: Caller, visits: Sequence[Visit]) -> None:
    for visit in visits:
        visit.job = _submitted(caller, visit)


def _submitted(caller: Caller, visit: Visit) -> dict[str, Any]:
    """Submit as a good client does: when the class is full, come back when it says."""
    params = visit.params | {name: _uploaded(caller, content) for name, content in visit.files.items()}
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        reply = caller.post("/api/v1/jobs", {"type": visit.type, "params": params})
        if reply.status == 202:
            return dict(reply.body)
        if reply.status != 503 or time.monotonic() > until:
            raise Surprise(f"Submitting {visit.type} was answered {said(reply)}.")
        time.sleep(float(reply.headers.get("retry-after", "1")))


def _uploaded(caller: Caller, content: bytes) -> str:
    reply = caller.upload("/api/v1/uploads", content)
    if reply.status != 201:
        raise Surprise(f"An upload of {len(content)} bytes was answered {said(reply)}.")
    return str(reply.body["id"])


def said(reply: Reply) -> str:
    detail = reply.body.get("detail", "") if isinstance(reply.body, dict) else ""
    return f"{reply.status} {detail}".strip().rstrip(".")


def follow(caller: Caller, visits: Sequence[Visit], watcher: Watcher) -> None:
    """Look at every job until all have ended, and show each look."""

    def all_ended() -> bool:
        for visit in visits:
            if not visit.ended:
                visit.job = look(caller, visit.job["id"])
        watcher.show(visits)
        return all(visit.ended for visit in visits)

    if not wait_for(all_ended, PATIENCE_SECONDS, LOOK_SECONDS):
        late = ", ".join(visit.type for visit in visits if not visit.ended)
        raise Surprise(f"After {PATIENCE_SECONDS:.0f} s these jobs had not ended: {late}.")


def look(caller: Caller, job_id: str) -> dict[str, Any]:
    reply = caller.get(f"/api/v1/jobs/{job_id}")
    if reply.status != 200:
        raise Surprise(f"Asking for job {job_id} was answered {said(reply)}.")
    return dict(reply.body)


def wait_for(condition: Callable[[], bool], timeout_seconds: float, pause_seconds: float) -> bool:
    until = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(pause_seconds)
    return True
