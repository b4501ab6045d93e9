"""How jobs, classes and types are shown."""

import inspect
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from jobs.classes import CostClass
from jobs.control import effective
from jobs.control.told import Setting, Subject
from jobs.files import artifacts
from jobs.models import Artifact, Job
from jobs.queries import ClassView
from jobs.registry import JobType
from jobs.waits import Waiting


def job(row: Job, waiting: Waiting | None = None) -> dict[str, Any]:
    return {
        **summary(row),
        "result": row.result,
        "artifacts": [_artifact(row, one) for one in artifacts.of_job(row)],
        "waiting": _waiting(waiting),
    }


def without_result(row: Job) -> dict[str, Any]:
    """The same for who may not read it."""
    return {**summary(row), "result": None, "artifacts": [], "waiting": None}


def _waiting(seen: Waiting | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    return {
        "position": seen.position,
        "estimated_start_at": instant(seen.starts_at),
        "estimated_start_p95_at": instant(seen.starts_p95_at),
        "held_by": seen.held_by,
    }


def _artifact(row: Job, one: Artifact) -> dict[str, Any]:
    return {
        "name": one.name,
        "bytes": one.size_bytes,
        "sha256": one.sha256,
        "content_type": one.content_type,
        "link": f"{address(row)}/artifacts/{quote(one.name)}",
    }


def server_timing(row: Job) -> dict[str, str]:
    """How long it waited and ran, in milliseconds, as far as that is known."""
    known = {"queue": _timings(row)["wait_seconds"], "run": row.run_seconds}
    parts = [f"{name};dur={seconds * 1e3:.1f}" for name, seconds in known.items() if seconds is not None]
    return {"Server-Timing": ", ".join(parts)} if parts else {}


def summary(row: Job) -> dict[str, Any]:
    """A job without its result, which may be large, and without its place in the queue, which costs a look at all that wait."""
    return {
        "id": str(row.id),
        "type": row.type,
        "cost_class": row.cost_class,
        "state": row.state,
        "priority": row.priority,
        "flow": row.flow,
        "accepted_at": instant(row.accepted_at),
        "started_at": instant(row.started_at),
        "finished_at": instant(row.finished_at),
        "start_by": instant(row.start_by),
        "deadline_at": instant(row.deadline_at),
        "timeout_seconds": float(row.timeout_seconds),
        "attempt": row.attempt,
        "failures": row.failures,
        "max_attempts": row.max_attempts,
        "cancel_requested_at": instant(row.cancel_requested_at),
        "progress": _progress(row),
        "result_expired": row.result_expired,
        "error": row.error,
        "timings": _timings(row),
        "labels": row.labels,
        "links": {"self": address(row), "batch": row.batch_id and batch_address(row.batch_id)},
    }


def address(row: Job) -> str:
    return f"/api/v1/jobs/{row.id}"


def batch_address(batch_id: UUID) -> str:
    return f"/api/v1/batches/{batch_id}"


def instant(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _progress(row: Job) -> dict[str, Any] | None:
    if row.progress_fraction is None:
        return None
    return {"fraction": row.progress_fraction, "note": row.progress_note}


def _timings(row: Job) -> dict[str, Any]:
    wait = None if row.started_at is None else (row.started_at - row.accepted_at).total_seconds()
    return {
        "wait_seconds": _rounded(wait),
        "run_seconds": _rounded(row.run_seconds),
        "cpu_seconds": _rounded(row.cpu_seconds),
        "peak_rss_bytes": row.peak_rss_bytes,
    }


def _rounded(seconds: float | None) -> float | None:
    """To the microsecond: more is noise."""
    return None if seconds is None else round(seconds, 6)


def cost_class(view: ClassView) -> dict[str, Any]:
    return {
        "name": view.cost_class.name,
        "accepting": view.accepting,
        "paused": view.paused,
        "draining": view.draining,
        "waiting": view.room.waiting,
        "max_waiting": view.cost_class.max_waiting,
        "running": view.room.running,
        "slots": view.room.slots,
        "workers": view.workers,
        "throughput_per_second": _rounded(view.throughput_per_second),
        "estimated_wait_seconds": {"p50": _rounded(view.wait_seconds(0.5)), "p95": _rounded(view.wait_seconds(0.95))},
        "retry_after_seconds": view.retry_after_seconds,
        "backlog_seconds": _rounded(view.cost_class.backlog_of(view.room)),
        "max_backlog_seconds": view.cost_class.backlog_seconds,
        "observed_at": instant(view.observed_at),
        **_limits(view.cost_class),
    }


_LIMITS = ("timeout_seconds", "ceiling_seconds", "max_wait_seconds", "params_bytes", "result_bytes")


def _limits(cost_class: CostClass) -> dict[str, Any]:
    """What holds for a job of the class, and what it may ask for."""
    return {name: getattr(cost_class, name) for name in _LIMITS}


def control(subject: Subject) -> dict[str, Any]:
    """What an operator may change of it, as it stands."""
    return {"kind": subject.kind, "name": subject.name, "settings": [_setting(one) for one in subject.settings]}


def _setting(one: Setting) -> dict[str, Any]:
    return {
        "field": one.field,
        "value": one.value,
        "declared": one.declared,
        "source": one.source,
        "changed_at": None if one.last is None else instant(one.last.changed_at),
        "changed_by": None if one.last is None else one.last.changed_by,
        "why": "" if one.last is None else one.last.why,
    }


def job_type(spec: JobType) -> dict[str, Any]:
    # A class that depends on the params is known only when there are some.
    its_class = effective.get(spec.cost_class) if isinstance(spec.cost_class, str) else None
    limits: dict[str, Any] = dict.fromkeys(_LIMITS) if its_class is None else _limits(its_class)
    if spec.timeout_seconds is not None:
        limits["timeout_seconds"] = spec.timeout_seconds
    return {
        "name": spec.name,
        "description": inspect.cleandoc(spec.handler.__doc__ or ""),
        "cost_class": None if its_class is None else its_class.name,
        **limits,
        "max_attempts": spec.max_attempts,
        "params_schema": spec.params.model_json_schema(),
        "example": spec.example,
    }
