"""Bodies of answers about what there is: classes, types, what operators have changed, and the caller itself."""

from typing import Annotated, Any, Literal

from pydantic import Field

from jobs.api.openapi.shapes import Count, Instant, Seconds, Shape
from jobs.keys import ALL_SCOPES

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
