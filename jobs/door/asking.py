"""A job that a call of this installation's own code asks for: read, checked, and taken through the door that the API's callers go through (P7).

What no job could be made of is raised as InvalidJob; what is refused is an answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json
from structlog.contextvars import get_contextvars

from jobs import admission, lifecycle, queries, registry, telemetry, traces, uploads
from jobs.admission import Admitted, Rejected, Replayed, Submission
from jobs.classes import CostClass
from jobs.door import idempotency, quotas, weighing
from jobs.door.idempotency import Idempotency
from jobs.door.weighing import LONGEST_DEADLINE_SECONDS, MOST_LABELS, LabelName, LabelValue
from jobs.models import ApiClient, Job
from jobs.registry import JobType
from jobs.states import State
from jobs.storable import holds_nul

IN_PROCESS = "(in-process)"  # the client of calls that name none; no caller over HTTP is called so, unless somebody gives it a key


class InvalidJob(ValueError):
    """No job can be made of what was asked for. The text is a sentence that names the fields.

    code: as the API's problems have it, `invalid_params` say. errors: [{"loc": ["params", "n"], "msg": …}], without values, which may be secret.
    """

    def __init__(self, code: str, sentence: str, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(sentence)
        self.code, self.errors = code, errors or []


class UnknownClient(ValueError):
    """There is no API client of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no API client {name!r}; make it in the admin, so that a misspelt name is none.")


@dataclass(frozen=True)
class RateLimited:
    """The client submits more often than an operator lets it; nothing was looked at further."""

    limit: int  # submits a minute
    retry_after_seconds: int
    reason: Literal["rate_limited"] = "rate_limited"


Answer = Admitted | Replayed | Rejected | RateLimited


@dataclass(frozen=True)
class Asked:
    """One job as a call asked for it. `params` and `labels` are what JSON makes of them; None is what the type or its class says."""

    type: str
    params: dict[str, Any]
    labels: dict[str, str]
    client: str = IN_PROCESS
    timeout_seconds: float | None = None
    max_wait_seconds: float | None = None
    deadline_seconds: float | None = None  # of this and deadline_at, the earlier counts
    deadline_at: datetime | None = None
    idempotency: Idempotency | None = None
    request_id: str = ""
    traceparent: str = ""

    @property
    def key(self) -> str | None:
        return None if self.idempotency is None else self.idempotency.key


class _Said(BaseModel):
    """What must be so of every job, whatever its type; as SubmitBody has it for the API."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Annotated[str, Field(max_length=100)]
    params: dict[str, Any]
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=MOST_LABELS)]
    timeout_seconds: float | None
    max_wait_seconds: float | None
    deadline_seconds: Annotated[float | None, Field(le=LONGEST_DEADLINE_SECONDS)]


def read(
    type: str,
    params: Mapping[str, Any] | BaseModel | None,
    *,
    labels: Mapping[str, str] | None,
    client: str,
    key: str | None,
    timeout_seconds: float | None,
    max_wait_seconds: float | None,
    deadline_seconds: float | None,
    deadline_at: datetime | None,
    traceparent: str,
) -> Asked:
    """Raises InvalidJob for what is no JSON or not of the form of a job, and BadKey. The type is not looked at yet."""
    body = {
        "type": type,
        "params": _plain(params),
        "labels": _plain(labels),
        "timeout_seconds": timeout_seconds,
        "max_wait_seconds": max_wait_seconds,
        "deadline_seconds": deadline_seconds,
    }
    try:
        said = _Said.model_validate(_as_json(body))
    except ValidationError as error:
        raise _invalid("invalid_request", "This is not a job to submit", error) from None
    return Asked(
        **said.model_dump(),
        client=client,
        deadline_at=_within_reach(deadline_at),
        idempotency=None if key is None else idempotency.of_call(key, said.model_dump(mode="json")),
        request_id=str(get_contextvars().get("request_id", ""))[:128],
        traceparent=traces.accepted(traceparent),
    )


def _plain(given: Mapping[str, Any] | BaseModel | None) -> Any:
    """A model as the caller of the API would have sent it."""
    if isinstance(given, BaseModel):
        return given.model_dump(mode="json", by_alias=True, round_trip=True)
    return dict(given or {}) if given is None or isinstance(given, Mapping) else given


def _as_json(body: dict[str, Any]) -> Any:
    """What would have come over HTTP, so that both doors judge the same."""
    try:
        value = from_json(json.dumps(body, ensure_ascii=False, allow_nan=False).encode(), allow_inf_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob("invalid_request", f"This is no JSON-able data: {error}.") from None
    if holds_nul(value):
        raise InvalidJob("invalid_request", "The job holds the character U+0000, which cannot be stored.")
    return value


def _within_reach(deadline_at: datetime | None) -> datetime | None:
    """An instant that every time zone can show, so that a row that holds it can always be read."""
    if deadline_at is None:
        return None
    if not isinstance(deadline_at, datetime) or deadline_at.utcoffset() is None or not 1970 <= deadline_at.year <= 9000:
        message = "must be a datetime with a time zone, in the years 1970 to 9000"
        raise InvalidJob("invalid_request", f"deadline_at {message}.", [{"loc": ["deadline_at"], "msg": message}])
    return deadline_at.astimezone(UTC)


def client_named(name: str) -> ApiClient:
    """Raises UnknownClient. The one of calls that name none is made when it is first needed."""
    return client_there(name) or ApiClient.objects.get_or_create(name=IN_PROCESS)[0]


def client_there(name: str) -> ApiClient | None:
    """None only for the one of calls that name none, while it was not needed yet. Raises UnknownClient."""
    found = ApiClient.objects.filter(name=name).first()
    if found is None and name != IN_PROCESS:
        raise UnknownClient(name)
    return found


def come_in(asked: Asked, client: ApiClient, outbox_id: UUID | None = None, counted: bool = False) -> Answer:
    """The checks in their order (P7), and admission. Raises InvalidJob, UndeclaredClass, and what admission raises.

    counted: the client's rate has let it through before, and is not asked again.
    """
    if asked.idempotency is not None:
        known = idempotency.job_under(client.pk, asked.idempotency)
        if known is not None:
            return Replayed(_as_it_is(known))
    rate = None if counted else quotas.count_submit(client)
    if rate is not None and not rate.allowed:
        telemetry.RATE_LIMITED.inc()
        return RateLimited(rate.limit, rate.more_in_seconds)
    answer = admission.submit(submission(asked, client, outbox_id))
    return Replayed(_as_it_is(answer.job)) if isinstance(answer, Replayed) else answer


def _as_it_is(job: Job) -> Job:
    """Expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        return queries.job_of(job.client_id, job.pk)
    return job


def submission(
    asked: Asked, client: ApiClient, outbox_id: UUID | None = None, *, look_for_uploads: bool = True
) -> Submission:
    """What the job would be. Raises InvalidJob, and UndeclaredClass, which is the fault of the type's author.

    look_for_uploads: whether those that the params name must be the client's; False where no database is asked.
    """
    job_type = registry.get(asked.type)
    if job_type is None:
        sentence = f"There is no job type {asked.type!r}; there are {', '.join(registry.names()) or 'none'}."
        raise InvalidJob("unknown_type", sentence, [{"loc": ["type"], "msg": "There is no job type of that name."}])
    owner = client if look_for_uploads else None
    cost_class = _class_for(job_type, asked.params, owner, named_before=outbox_id is not None)
    timeout_seconds, max_wait_seconds = _limits(job_type, cost_class, asked)
    return Submission(
        client=client,
        type=job_type.name,
        cost_class=cost_class,
        params=asked.params,
        timeout_seconds=timeout_seconds,
        max_wait_seconds=max_wait_seconds,
        labels=asked.labels,
        deadline_in_seconds=None if asked.deadline_seconds is None else max(0.0, asked.deadline_seconds),
        deadline_at=asked.deadline_at,
        max_attempts=job_type.max_attempts,
        max_deliveries=job_type.max_deliveries,
        request_id=asked.request_id,
        traceparent=asked.traceparent,
        idempotency=asked.idempotency,
        outbox_id=outbox_id,
    )


def _class_for(job_type: JobType, params: dict[str, Any], owner: ApiClient | None, *, named_before: bool) -> CostClass:
    """Of params whose uploads are the owner's, if there is one to be asked for."""
    try:
        model, cost_class = weighing.weighed(job_type, params)
        if owner is not None:
            uploads.refuse_unknown(owner.pk, model, named_before=named_before)
        return cost_class
    except uploads.UnknownUploads as error:
        errors = [{"loc": ["params", *map(str, place)], "msg": str(error)} for place in error.places]
        raise InvalidJob("invalid_params", f"The params do not fit {job_type.name}: {error}", errors) from None
    except ValidationError as error:
        raise _invalid("invalid_params", f"The params do not fit {job_type.name}", error, "params") from None
    except weighing.ParamsTooLarge as error:
        raise InvalidJob("too_large", str(error), [{"loc": ["params"], "msg": str(error)}]) from None


def _limits(job_type: JobType, cost_class: CostClass, asked: Asked) -> tuple[float, float]:
    try:
        return (
            weighing.timeout_seconds(job_type, cost_class, asked.timeout_seconds, "timeout_seconds"),
            weighing.max_wait_seconds(cost_class, asked.max_wait_seconds, "max_wait_seconds"),
        )
    except weighing.LimitOutOfRange as error:
        raise InvalidJob("limit_out_of_range", str(error), [{"loc": [error.name], "msg": str(error)}]) from None


def _invalid(code: str, sentence: str, error: ValidationError, *within: str) -> InvalidJob:
    errors: list[dict[str, Any]] = [
        {"loc": [*within, *map(str, row["loc"])], "msg": row["msg"].removeprefix("Value error, ")}
        for row in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    told = "; ".join(f"{'.'.join(row['loc'])}: {row['msg'].rstrip('.')}" for row in errors)
    return InvalidJob(code, f"{sentence}: {told}.", errors)
