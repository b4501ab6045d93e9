"""Bodies of answers. Every member is always there, and there is no other: `serializers.py` and the views make them."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobs.batches.reading import MOST_DATA_BYTES
from jobs.door.forms import FLOW_LENGTH, HIGHEST_PRIORITY, LOWEST_PRIORITY
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
