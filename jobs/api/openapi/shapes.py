"""Bodies of answers. Every member is always there, and there is no other: `serializers.py` and the views make them."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobs.keys import ALL_SCOPES
from jobs.states import State, StoppedBy

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, pattern=r"^\d{4}-.*\.\d{3}Z$")]
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Progress(Shape):
    fraction: Annotated[float, Field(ge=0, le=1)]
    note: str


class JobError(Shape):
    """Why a job ended as it did. `details` are what its author lets callers read."""

    code: str
    message: str
    retryable: bool
    stopped_by: StoppedBy | None
    details: Any


class Timings(Shape):
    """Null: not known yet."""

    wait_seconds: Seconds | None
    run_seconds: Seconds | None
    cpu_seconds: Seconds | None
    peak_rss_bytes: Count | None


class JobLinks(Shape):
    self: str


class JobSummary(Shape):
    """A job without its result. All instants are the database's; all durations are seconds."""

    id: UUID
    type: str
    cost_class: str
    state: State
    accepted_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    start_by: Instant | None
    deadline_at: Instant | None
    timeout_seconds: Seconds
    attempt: Count
    failures: Count
    max_attempts: Annotated[int, Field(ge=1)]
    cancel_requested_at: Instant | None
    progress: Progress | None
    result_expired: bool
    error: JobError | None
    timings: Timings
    labels: dict[str, str]
    links: JobLinks


class Job(JobSummary):
    """`result` is null until the job has succeeded, and for a key that may not read jobs."""

    result: Any


class PageLinks(Shape):
    next: str | None


class JobPage(Shape):
    """Newest first. `next_cursor` is null when nothing lies further back; a page may be short, even empty, before that."""

    jobs: list[JobSummary]
    next_cursor: str | None
    links: PageLinks


class ChangesLinks(Shape):
    next: str


class ChangesPage(Shape):
    """In the order of their ends. Come back with `next_cursor` for those that have ended since; it is null before the first end."""

    jobs: list[JobSummary]
    next_cursor: str | None
    links: ChangesLinks


# ── What there is ────────────────────────────────────────────────────────────────────────────────────────────────────


class CostClass(Shape):
    """Advisory: at most a second old."""

    name: str
    accepting: bool
    paused: bool
    waiting: Count
    max_waiting: Count
    running: Count
    slots: Count


class CostClasses(Shape):
    classes: list[CostClass]


class JobType(Shape):
    """`cost_class` is null where it depends on the params, `timeout_seconds` where the class's default holds."""

    name: str
    description: str
    cost_class: str | None
    timeout_seconds: Seconds | None
    max_attempts: Annotated[int, Field(ge=1)]
    params_schema: Annotated[dict[str, Any], Field(description="A JSON Schema.")]
    example: dict[str, Any] | None


class JobTypes(Shape):
    types: list[JobType]


class Quotas(Shape):
    """Null: as many as it likes."""

    submits_per_minute: Count | None
    max_jobs: Count | None
    jobs: Annotated[int, Field(ge=0, description="Waiting and running now.")]


class Limits(Shape):
    body_bytes: Count
    labels: Count
    page_size: Count
    wait_seconds: Count
    deadline_seconds: Count


class Client(Shape):
    name: str
    scopes: list[Annotated[str, Field(json_schema_extra={"enum": [*ALL_SCOPES]})]]
    quotas: Quotas
    limits: Limits


# ── Health ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Alive(Shape):
    status: Literal["ok"]


class Consumption(Shape):
    slots: Count
    consuming: bool


class Ready(Shape):
    """`degraded`: wake-ups cannot be sent, so that jobs start with the next sweep."""

    status: Literal["ok", "degraded"]
    database: Literal["ok"]
    broker: Literal["ok", "away"]
    classes: dict[str, Consumption]


class NotReady(Shape):
    status: Literal["unavailable"]
    database: Literal["away"]
