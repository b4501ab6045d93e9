"""Every metric of this process. Depth gauges are read from the database when somebody asks (api/metrics.py).

With PROMETHEUS_MULTIPROC_DIR set, all processes of a machine count into one directory and any web
process answers for all of them.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, get_args

import structlog
from prometheus_client import Counter, Histogram, values

from jobs import classes
from jobs.states import TERMINAL, Refusal, StoppedBy

log = structlog.get_logger(__name__)

_HOST = socket.gethostname()


def _process() -> str:
    """Names a process's files. A pid alone is not enough: each container counts its pids from 1."""
    return f"{_HOST}-{os.getpid()}"


class _InFile(values.MultiProcessValue(_process)):  # type: ignore[misc]
    """A value in this process's file. What cannot be counted is not counted, and fails nobody: no count is worth a job."""

    def __init__(self, *what: Any, **options: Any) -> None:
        self._value, self._told = 0.0, False
        try:
            super().__init__(*what, **options)
        except OSError:
            pass  # made up for when it first counts

    def inc(self, amount: float) -> None:
        self._do(lambda: super(_InFile, self).inc(amount))

    def set(self, value: float, timestamp: float | None = None) -> None:
        self._do(lambda: super(_InFile, self).set(value, timestamp))

    def _do(self, act: Callable[[], None]) -> None:
        """Once more when the folder had gone, or its files were closed by a fork that could not open them anew."""
        try:
            act()
        except Exception:
            try:
                os.makedirs(os.environ["PROMETHEUS_MULTIPROC_DIR"], 0o700, exist_ok=True)
                self._MmapedValue__reset()
                act()
            except Exception as error:
                if not self._told:
                    log.warning("not_counted", error=type(error).__name__)
                self._told = True


if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    values.ValueClass = _InFile  # before the first metric is made

ADMITTED = Counter("jobs_admitted", "Jobs accepted.", ["cost_class"])
REJECTED = Counter("jobs_rejected", "Submits answered with a refusal.", ["cost_class", "reason"])
RETURNED = Counter(
    "jobs_returned", "Callers who came back at the turn they were told, by their key.", ["cost_class", "admitted"]
)
REPLAYED = Counter(
    "jobs_replayed", "Submits answered with the job that their Idempotency-Key had made.", ["cost_class"]
)
FINISHED = Counter("jobs_finished", "Jobs that reached a terminal state.", ["cost_class", "outcome"])
WAIT = Histogram("job_wait_seconds", "From acceptance to the first start.", ["cost_class"])
LATE = Histogram(
    "job_start_late_seconds",
    "The first start, after the one that was estimated at admission; below 0 it was sooner.",
    ["cost_class"],
    buckets=(-60, -10, -1, 0, 1, 5, 10, 30, 60, 300),
)
RUN = Histogram(
    "job_run_seconds", "Inside one attempt.", ["cost_class"], buckets=(0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 900)
)
STALE_SETTLES = Counter("stale_settles", "Settles of an attempt that no longer owned its job; they change nothing.")
RETRIES = Counter("job_retries", "Decisions after a failed attempt.", ["decision", "reason"])
PUBLISH_FAILED = Counter("wakeups_failed", "Wake-ups that could not be sent; the top-up sweep makes up for them.")
ORPHANED = Counter("jobs_orphaned", "Jobs that ran on although their caller had stopped waiting for them.")
BATCHES_ADMITTED = Counter("batches_admitted", "Batches accepted, in whole or in part; their jobs count as jobs.")
BATCHES_REPLAYED = Counter("batches_replayed", "Submits answered with the batch that their Idempotency-Key had made.")
BATCHES_SEALED = Counter("batches_sealed", "Batches that reached their end.", ["state"])
RATE_LIMITED = Counter("submits_rate_limited", "Submits that came faster than their client may send them.")
RATE_UNKNOWN = Counter("submits_rate_unknown", "Submits of clients with a limit that passed uncounted: Redis was away.")
OUTBOX = Counter("jobs_outbox_ended", "Outbox entries that became a job, or were given up.", ["outcome"])
HTTP = Histogram(
    "http_request_seconds",
    "By route, from its first turn to its answer: with what a caller asked to wait and a file took to come, without the arrival of other bodies.",
    ["route", "method", "status"],
    buckets=(*Histogram.DEFAULT_BUCKETS[:-1], 30, 60),  # the longest that a caller may ask to wait
)
HTTP_REFUSED = Counter("http_refused", "Requests refused before they were looked at.", ["status"])

REASONS: tuple[str, ...] = get_args(Refusal)
STOPPED_BY: tuple[str, ...] = get_args(StoppedBy)
REFUSED_UNSEEN = (400, 408, 413, 429, 503)  # not whole, too slow, too large, too many at once, no turn
OUTBOX_OUTCOMES = ("admitted", "given_up")
OUTCOMES = tuple(sorted(state.value for state in TERMINAL))


def show_from_the_start() -> None:
    """A counter that appears with its first event looks like a reset to a dashboard; show all at 0."""
    for reason in STOPPED_BY:
        RETRIES.labels("stop", reason)
    RETRIES.labels("again", "")
    for outcome in OUTBOX_OUTCOMES:
        OUTBOX.labels(outcome)
    for status in REFUSED_UNSEEN:
        HTTP_REFUSED.labels(status)
    for state in ("finished", "cancelled"):
        BATCHES_SEALED.labels(state)
    for name in classes.declared():
        ADMITTED.labels(name)
        REPLAYED.labels(name)
        for admitted in ("true", "false"):
            RETURNED.labels(name, admitted)
        WAIT.labels(name)
        LATE.labels(name)
        RUN.labels(name)
        for reason in REASONS:
            REJECTED.labels(name, reason)
        for outcome in OUTCOMES:
            FINISHED.labels(name, outcome)
