"""The demo's burst: more heavy jobs than the class takes, while light jobs and /healthz are timed before and during it."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from jobs.states import TERMINAL
from stack.demo_jobs import Surprise, look, said, wait_for
from stack.http_calls import Caller, Reply

BEYOND = 8  # jobs more than there is room for
SENDERS = 8  # requests under way at once
SPIN_SECONDS = 6.0  # outlasts the measurement, so the class stays full while it is taken
LIGHT_SAMPLES, HEALTH_SAMPLES = 20, 100
LIGHT_POLL_SECONDS = 0.01
DRAIN_SECONDS = 120.0
# A light job or /healthz that takes longer than this during the burst was slowed by the heavy class.
SLOW_SECONDS = 1.0


@dataclass(frozen=True)
class Timing:
    """Round trips in seconds: the middle one and the one that 95 % stay within."""

    p50: float
    p95: float


@dataclass(frozen=True)
class Pace:
    """How fast the things are that the burst must not slow."""

    light: Timing
    healthz: Timing


@dataclass
class BurstReport:
    """What the burst showed. `other` counts answers that are neither 202 nor 503."""

    sent: int
    room: int
    before: Pace
    during: Pace
    accepted: int
    refused: int
    retry_after: list[int] = field(default_factory=list)
    other: dict[str, int] = field(default_factory=dict)
    drained: bool = True

    def surprises(self) -> list[str]:
        found = [f"{count} submissions of the burst were answered {answer}." for answer, count in self.other.items()]
        if not self.refused:
            found.append(f"Nothing was refused, though {self.sent} jobs were sent and there was room for {self.room}.")
        if len(self.retry_after) != self.refused:
            found.append(
                f"Of {self.refused} refusals only {len(self.retry_after)} said in Retry-After when to come back."
            )
        if max(self.during.light.p95, self.during.healthz.p95) > SLOW_SECONDS:
            found.append(f"During the burst a light job or /healthz took more than {SLOW_SECONDS:.0f} s.")
        if not self.drained:
            found.append(f"The class heavy was not empty {DRAIN_SECONDS:.0f} s after the burst was cancelled.")
        return found


def run_burst(caller: Caller) -> BurstReport:
    room = _room(_heavy(caller))
    before = _pace(caller)
    replies = _send(caller, room + BEYOND)
    try:
        during = _pace(caller)
    finally:
        drained = _clear(caller, [reply.body["id"] for reply in replies if reply.status == 202])
    return _report(room, before, during, replies, drained)


def _heavy(caller: Caller) -> dict[str, Any]:
    reply = caller.get("/api/v1/classes")
    if reply.status != 200:
        raise Surprise(f"Asking for the cost classes was answered {said(reply)}.")
    return next(dict(row) for row in reply.body["classes"] if row["name"] == "heavy")


def _room(heavy: dict[str, Any]) -> int:
    return int(heavy["slots"] + heavy["max_waiting"])


def _pace(caller: Caller) -> Pace:
    light = timing([_light_round_trip(caller) for _ in range(LIGHT_SAMPLES)])
    return Pace(light, timing([_health_round_trip(caller) for _ in range(HEALTH_SAMPLES)]))


def timing(seconds: Sequence[float]) -> Timing:
    """Nearest-rank percentiles."""
    ordered = sorted(seconds)
    return Timing(*(ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.50, 0.95)))


def _light_round_trip(caller: Caller) -> float:
    """From the submission of a light job to the answer that shows it succeeded."""
    began = time.perf_counter()
    reply = caller.post("/api/v1/jobs", {"type": "probe.sleep", "params": {"seconds": 0, "cost_class": "light"}})
    if reply.status != 202:
        raise Surprise(f"Submitting a light job was answered {said(reply)}.")
    job: dict[str, Any] = dict(reply.body)

    def ended() -> bool:
        job.update(look(caller, job["id"]))
        return job["state"] in TERMINAL

    if not wait_for(ended, 30.0, LIGHT_POLL_SECONDS) or job["state"] != "succeeded":
        raise Surprise(f"The light job {job['id']} is {job['state']}.")
    return time.perf_counter() - began


def _health_round_trip(caller: Caller) -> float:
    reply = caller.get("/healthz")
    if reply.status != 200:
        raise Surprise(f"/healthz answered {said(reply)}.")
    return reply.seconds


def _send(caller: Caller, count: int) -> list[Reply]:
    body = {"type": "probe.spin", "params": {"seconds": SPIN_SECONDS, "cost_class": "heavy"}}
    send: Callable[[int], Reply] = lambda _: caller.post("/api/v1/jobs", body)  # noqa: E731
    with ThreadPoolExecutor(SENDERS) as senders:
        return list(senders.map(send, range(count)))


def _clear(caller: Caller, job_ids: list[str]) -> bool:
    """Cancel what the burst left, last come first so that none starts meanwhile, and wait until the class is empty."""
    for job_id in reversed(job_ids):
        reply = caller.delete(f"/api/v1/jobs/{job_id}")
        if reply.status not in (200, 202, 409):
            raise Surprise(f"Cancelling job {job_id} was answered {said(reply)}.")

    def empty() -> bool:
        heavy = _heavy(caller)
        return not heavy["waiting"] and not heavy["running"]

    return wait_for(empty, DRAIN_SECONDS, 0.2)


def _report(room: int, before: Pace, during: Pace, replies: list[Reply], drained: bool) -> BurstReport:
    counts = collections.Counter(reply.status for reply in replies)
    others = collections.Counter(said(reply) for reply in replies if reply.status not in (202, 503))
    waits = [reply.headers.get("retry-after", "") for reply in replies if reply.status == 503]
    return BurstReport(
        sent=len(replies),
        room=room,
        before=before,
        during=during,
        accepted=counts[202],
        refused=counts[503],
        retry_after=[int(wait) for wait in waits if wait.isdigit()],
        other=dict(others),
        drained=drained,
    )
