"""Between JSON and our values: what a submit may say, and how jobs, classes and types are shown."""

import inspect
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
)

from jobs import artifacts, registry, uploads
from jobs.admission import Submission
from jobs.api.errors import Problem
from jobs.classes import CostClass
from jobs.door import weighing
from jobs.door.idempotency import Idempotency
from jobs.door.weighing import LONGEST_DEADLINE_SECONDS, MOST_LABELS, LabelName, LabelValue
from jobs.models import ApiClient, Artifact, Job
from jobs.queries import ClassView
from jobs.registry import JobType

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _rfc_3339(value: object) -> object:
    """Alone pydantic would take a number, also one in quotes, for a Unix time."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError(
            "must be an RFC 3339 date and time with an offset, such as 2030-01-31T12:00:00Z (in an address, a + is written %2B)"
        )
    return value


def _within_reach(value: datetime) -> datetime:
    """An instant that every time zone can show, so that a row that holds it can always be read."""
    if not 1970 <= value.year <= 9000:
        raise ValueError("must be in the years 1970 to 9000")
    return value.astimezone(UTC)  # PostgreSQL knows no offset of 16 hours or more


Instant = Annotated[AwareDatetime, Strict(False), BeforeValidator(_rfc_3339), AfterValidator(_within_reach)]


class SubmitBody(BaseModel):
    """The body of POST /jobs. Only `type` is required."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Annotated[str, Field(max_length=100)]
    params: dict[str, Any] = {}
    max_wait_seconds: float | None = None
    timeout_seconds: float | None = None
    deadline_seconds: Annotated[float | None, Field(le=LONGEST_DEADLINE_SECONDS)] = None
    deadline_at: Instant | None = None
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=MOST_LABELS)] = {}


@dataclass(frozen=True)
class Origin:
    """Whose request it is, and what it is called in logs and traces."""

    client: ApiClient
    request_id: str
    traceparent: str = ""


def submission(data: Any, origin: Origin, remaining_ms: str | None, idempotency: Idempotency | None) -> Submission:
    """A request body, and X-Deadline-Ms if it was sent, as a submission. Raises Problem (4xx) for what cannot be one."""
    body = _body(data)
    job_type = registry.get(body.type)
    if job_type is None:
        raise Problem.unknown_type(body.type)
    cost_class = _class_for(job_type, body.params, origin.client)
    timeout_seconds, max_wait_seconds = _limits(job_type, cost_class, body)
    return Submission(
        client=origin.client,
        type=job_type.name,
        cost_class=cost_class,
        params=body.params,
        timeout_seconds=timeout_seconds,
        max_wait_seconds=max_wait_seconds,
        labels=body.labels,
        deadline_in_seconds=remaining_seconds(body.deadline_seconds, remaining_ms),
        deadline_at=body.deadline_at,
        max_attempts=job_type.max_attempts,
        max_deliveries=job_type.max_deliveries,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
        idempotency=idempotency,
    )


def _body(data: Any) -> SubmitBody:
    try:
        return SubmitBody.model_validate(data)
    except ValidationError as error:
        raise Problem.invalid("invalid_request", "The request body is not a job to submit.", error) from None


def _class_for(job_type: JobType, params: dict[str, Any], client: ApiClient) -> CostClass:
    try:
        model, cost_class = weighing.weighed(job_type, params)
        uploads.refuse_unknown(client.pk, model)
        return cost_class
    except uploads.UnknownUploads as error:
        raise Problem.unknown_uploads(job_type.name, error) from None
    except ValidationError as error:
        raise Problem.invalid("invalid_params", f"The params do not fit {job_type.name}.", error, ("params",)) from None
    except weighing.ParamsTooLarge as error:
        raise Problem.too_large(f"The params are {error.size_bytes} bytes", error.limit_bytes) from None


def _limits(job_type: JobType, cost_class: CostClass, body: SubmitBody) -> tuple[float, float]:
    """The timeout and the longest wait, in seconds."""
    try:
        return (
            weighing.timeout_seconds(job_type, cost_class, body.timeout_seconds, "timeout_seconds"),
            weighing.max_wait_seconds(cost_class, body.max_wait_seconds, "max_wait_seconds"),
        )
    except weighing.LimitOutOfRange as error:
        raise Problem.limit_out_of_range(error.name, error.asked, error.lowest, error.highest) from None


def remaining_seconds(deadline_seconds: float | None, remaining_ms: str | None) -> float | None:
    """Of the two relative deadlines the earlier. Raises Problem (400) for an X-Deadline-Ms that is none."""
    return _sooner(deadline_seconds, _seconds_of(remaining_ms))


def _seconds_of(remaining_ms: str | None) -> float | None:
    """X-Deadline-Ms: what remains of the caller's own time, in whole milliseconds."""
    if remaining_ms is None:
        return None
    if not re.fullmatch(r"[0-9]{1,13}", remaining_ms):
        raise Problem(400, "bad_request", "X-Deadline-Ms must be the remaining milliseconds, a whole number.")
    return min(int(remaining_ms) / 1000, LONGEST_DEADLINE_SECONDS)


def _sooner(one: float | None, other: float | None) -> float | None:
    """Of the caller's deadlines the earliest counts (P9); `deadline_at` joins in the database, which has the clock."""
    given = [max(0.0, seconds) for seconds in (one, other) if seconds is not None]  # past is past, however long
    return min(given, default=None)


def job(row: Job) -> dict[str, Any]:
    return {**summary(row), "result": row.result, "artifacts": [_artifact(row, one) for one in artifacts.of_job(row)]}


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
    """A job without its result, which may be large."""
    return {
        "id": str(row.id),
        "type": row.type,
        "cost_class": row.cost_class,
        "state": row.state,
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
        "waiting": view.room.waiting,
        "max_waiting": view.cost_class.max_waiting,
        "running": view.room.running,
        "slots": view.room.slots,
        "workers": view.workers,
        "observed_at": instant(view.observed_at),
    }


def job_type(spec: JobType) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": inspect.cleandoc(spec.handler.__doc__ or ""),
        # A class that depends on the params is known only when there are some.
        "cost_class": spec.cost_class if isinstance(spec.cost_class, str) else None,
        "timeout_seconds": spec.timeout_seconds,
        "max_attempts": spec.max_attempts,
        "params_schema": spec.params.model_json_schema(),
        "example": spec.example,
    }
