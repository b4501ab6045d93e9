"""Bodies of answers. Every member is always there, and there is no other: `serializers.py` and the views make them."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobs.batches.reading import MOST_DATA_BYTES
from jobs.door.forms import FLOW_LENGTH, HIGHEST_PRIORITY, LOWEST_PRIORITY
from jobs.keys import ALL_SCOPES
from jobs.states import State, StoppedBy

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, pattern=r"^\d{4}-.*\.\d{3}Z$")]
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _without_default(schema: dict[str, Any]) -> None:
    """Of a member that is there, or not at all: whoever read a default into its absence would read it as there."""
    schema.pop("default", None)


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
    """`batch`: the one that it came with."""

    self: str
    batch: str | None


class JobSummary(Shape):
    """A job without its result. All instants are the database's; all durations are seconds."""

    id: UUID
    type: str
    cost_class: str
    state: State
    priority: Annotated[int, Field(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)]
    flow: Annotated[str, Field(description="Empty: none was said.", max_length=FLOW_LENGTH)]
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


class Artifact(Shape):
    """A file that a job left."""

    name: str
    bytes: Count
    sha256: Sha256
    content_type: str
    link: str


class Waiting(Shape):
    """As it is now; the next job that is admitted or ends may change it. An ETag does not cover it."""

    position: Annotated[int, Field(ge=1, description="1: the next.")]
    estimated_start_at: Annotated[
        Instant | None,
        Field(
            description="In the mean; null while nothing is known of what jobs take, no worker lives, or a limit or an operator holds it."
        ),
    ]
    estimated_start_p95_at: Annotated[Instant | None, Field(description="By then 19 of 20 such jobs have started.")]
    held_by: Annotated[
        str | None,
        Field(
            description=(
                "Null: by the jobs before it only. `limit:<key>`: as many jobs that name the key run as may; `client_limit`: of the client's; "
                "`retry_backoff`: until its next attempt is due; `paused`: by an operator, its class, its type, or what its client has waiting."
            ),
            pattern="^(limit:[^\\u0000]+|client_limit|retry_backoff|paused)$",
        ),
    ]


class Job(JobSummary):
    """`result` is null and `artifacts` is empty until the job has succeeded, and for a key without the scope `jobs:read`, from which they are withheld."""

    result: Any
    artifacts: list[Artifact]
    waiting: Annotated[
        Waiting | None,
        Field(description="Where it stands in the queue; null unless it waits, and where that could not be told."),
    ]


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


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class BatchCounts(Shape):
    """`total` is the sum of all others."""

    total: Count
    ok: Count
    failed: Count
    cancelled: Count
    deadline_exceeded: Count
    refused: Count
    pending: Count


class ItemLinks(Shape):
    whole: str


_Expired = Annotated[
    Literal[True],
    Field(description="Only where the result was kept for its time.", json_schema_extra=_without_default),
]
_Omitted = Annotated[
    Literal[True],
    Field(
        description=(
            "Only where the data and the errors' details of all items together would be more than "
            f"{MOST_DATA_BYTES} bytes; the largest are left out."
        ),
        json_schema_extra=_without_default,
    ),
]
_Whole = Annotated[
    ItemLinks, Field(description="Only where something is omitted: it is there.", json_schema_extra=_without_default)
]


class ItemSucceeded(Shape):
    """`data` is the job's result; null for a key that may not read jobs, and where it is omitted."""

    ok: Literal[True]
    data: Any
    job: UUID
    data_expired: _Expired = True
    omitted: _Omitted = True
    links: _Whole = ItemLinks(whole="")


class ItemFailed(Shape):
    """`job` is null for one that was refused."""

    ok: Literal[False]
    error: JobError
    job: UUID | None
    omitted: _Omitted = True
    links: _Whole = ItemLinks(whole="")


class BatchLinks(Shape):
    self: str


class Batch(Shape):
    """`results` are of the items that are done with, `jobs` of all, null for those that were refused. `partial`: some item has no data."""

    id: UUID
    state: Literal["running", "finished", "cancelled"]
    atomic: bool
    accepted_at: Instant
    deadline_at: Instant | None
    cancel_requested_at: Instant | None
    sealed_at: Annotated[Instant | None, Field(description="When its results became final.")]
    partial: bool
    counts: BatchCounts
    results: dict[str, ItemSucceeded | ItemFailed]
    jobs: dict[str, UUID | None]
    links: BatchLinks


class SubmittedBatch(Batch):
    """A batch as it was admitted."""

    room: Annotated[
        dict[str, Count],
        Field(
            default_factory=dict,
            description="Places that each class has left, by its name; only of a batch that is not atomic.",
        ),
    ]


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class UploadLinks(Shape):
    self: str


class Upload(Shape):
    """A file that a caller sent. `kept_until`: at least."""

    id: UUID
    bytes: Count
    sha256: Sha256
    created_at: Instant
    kept_until: Instant
    links: UploadLinks


# ── What there is ────────────────────────────────────────────────────────────────────────────────────────────────────


_TIMEOUT = "How long one attempt may take, unless the type or the request says otherwise."
_CEILING = "The highest `timeout_seconds` that a request may ask for."
_MAX_WAIT = "How long a job may wait for its start; a request may ask for less."
_PARAMS_BYTES, _RESULT_BYTES = "The largest params, as compact JSON.", "The largest result, as JSON."


class EstimatedWait(Shape):
    """Of a job that came now, behind all others; null while nothing is known of what jobs take, or no worker lives."""

    p50: Seconds | None
    p95: Seconds | None


class CostClass(Shape):
    """Advisory: what is counted is at most a second old."""

    name: str
    accepting: bool
    paused: Annotated[bool, Field(description="By an operator: nothing of it starts.")]
    draining: Annotated[bool, Field(description="By an operator: it takes no more jobs.")]
    waiting: Count
    max_waiting: Count
    running: Count
    slots: Count
    workers: Annotated[Count, Field(description="Worker nodes that live, each with slots of its own.")]
    throughput_per_second: Annotated[
        Seconds | None,
        Field(description="Jobs that left it, in whatever way, over the last minute; null where too few did."),
    ]
    estimated_wait_seconds: EstimatedWait
    retry_after_seconds: Annotated[Count, Field(description="What who is refused now would be told.")]
    backlog_seconds: Annotated[Seconds, Field(description="Expected work of what waits and runs, over all slots.")]
    max_backlog_seconds: Annotated[Seconds, Field(description="The class takes no more above it.")]
    observed_at: Annotated[Instant, Field(description="When it was so, by the database's clock.")]
    timeout_seconds: Annotated[Seconds, Field(description=_TIMEOUT)]
    ceiling_seconds: Annotated[Seconds, Field(description=_CEILING)]
    max_wait_seconds: Annotated[Seconds, Field(description=_MAX_WAIT)]
    params_bytes: Annotated[Count, Field(description=_PARAMS_BYTES)]
    result_bytes: Annotated[Count, Field(description=_RESULT_BYTES)]


class CostClasses(Shape):
    classes: list[CostClass]


class JobType(Shape):
    """`cost_class` and its limits are null where they depend on the params: see the class in the answer to a submit."""

    name: str
    description: str
    cost_class: str | None
    timeout_seconds: Annotated[
        Seconds | None, Field(description="How long one attempt may take, unless the request says otherwise.")
    ]
    ceiling_seconds: Annotated[Seconds | None, Field(description=_CEILING)]
    max_wait_seconds: Annotated[Seconds | None, Field(description=_MAX_WAIT)]
    params_bytes: Annotated[Count | None, Field(description=_PARAMS_BYTES)]
    result_bytes: Annotated[Count | None, Field(description=_RESULT_BYTES)]
    max_attempts: Annotated[int, Field(ge=1)]
    params_schema: Annotated[dict[str, Any], Field(description="A JSON Schema.")]
    example: dict[str, Any] | None


class JobTypes(Shape):
    types: list[JobType]


class Setting(Shape):
    """`declared` is what holds without an operator. `changed_…`: the last change by an operator, also one that took it back."""

    field: str
    value: bool | float
    declared: bool | float
    source: Literal["operator", "environment", "settings", "default"]
    changed_at: Instant | None
    changed_by: str | None
    why: str


class Control(Shape):
    kind: Literal["class", "type", "client"]
    name: str
    settings: list[Setting]


class Controls(Shape):
    """All classes, and those job types and clients that an operator holds back."""

    controls: list[Control]


class TypeSwitches(Shape):
    name: str
    paused: Annotated[bool, Field(description="None of its jobs starts.")]
    refused: Annotated[bool, Field(description="No more of its jobs are taken.")]


class ClientSwitches(Shape):
    name: str
    suspended: Annotated[bool, Field(description="It may submit nothing, and nothing that it has waiting starts.")]


class Quotas(Shape):
    """Null: as many as it likes."""

    submits_per_minute: Count | None
    submits: Annotated[
        int | None,
        Field(ge=0, description="Jobs of the last minute. Null without a limit, and while they cannot be counted."),
    ]
    max_jobs: Count | None
    jobs: Annotated[int, Field(ge=0, description="Waiting and running now.")]
    max_running: Count | None
    running: Annotated[int, Field(ge=0, description="Running now.")]
    max_uploads_bytes: Count
    uploads_bytes: Annotated[int, Field(ge=0, description="Of all its uploads now.")]


class Limits(Shape):
    body_bytes: Count
    batch_jobs: Count
    batch_bytes: Count
    upload_bytes: Count
    labels: Count
    page_size: Count
    wait_seconds: Count
    deadline_seconds: Count


class Client(Shape):
    name: str
    suspended: Annotated[bool, Field(description="By an operator: it may submit nothing.")]
    weight: Annotated[float, Field(gt=0, description="Its part of a class, beside the weights of other clients there.")]
    scopes: list[Annotated[str, Field(json_schema_extra={"enum": [*ALL_SCOPES]})]]
    quotas: Quotas
    limits: Limits


# ── Health ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Alive(Shape):
    status: Literal["ok"]


class Consumption(Shape):
    """A class that is paused or draining is so by an operator's word, and no fault."""

    slots: Count
    consuming: bool
    paused: bool
    draining: bool


class Ready(Shape):
    """`degraded`: wake-ups cannot be sent, so that jobs start with the next sweep."""

    status: Literal["ok", "degraded"]
    database: Literal["ok"]
    broker: Literal["ok", "away"]
    classes: dict[str, Consumption]


class NotReady(Shape):
    status: Literal["unavailable"]
    database: Literal["away"]
