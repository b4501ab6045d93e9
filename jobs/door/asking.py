"""What was asked for, by whichever way, and the submission that is made of it (P7, P9)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from pydantic import BaseModel, ValidationError

from jobs import costs, limit_keys, registry
from jobs.classes import CostClass
from jobs.control import effective
from jobs.door import weighing
from jobs.door.forms import JobForm
from jobs.door.idempotency import Idempotency
from jobs.door.invalid import InvalidJob, UnknownType, places
from jobs.door.submission import Said, Submission, said_of
from jobs.files import uploads
from jobs.models import ApiClient
from jobs.registry import JobType

IN_PROCESS = "(in-process)"  # the client of calls that name none; no caller over HTTP is called so


@dataclass(frozen=True, kw_only=True)
class AskedJob(Said):
    """One job as it was asked for. `params` and `labels` are what JSON makes of them; None is what the type or its class says."""

    client: str = IN_PROCESS
    timeout_seconds: float | None = None
    max_wait_seconds: float | None = None
    deadline_seconds: float | None = None  # of this and deadline_at, the earlier counts
    deadline_at: datetime | None = None
    idempotency: Idempotency | None = None

    @property
    def key(self) -> str | None:
        return None if self.idempotency is None else self.idempotency.key


def form(said: Any) -> JobForm:
    """Of JSON. Raises InvalidJob. The type is not looked at yet."""
    try:
        return JobForm.model_validate(said)
    except ValidationError as error:
        raise InvalidJob("invalid_request", "This is not a job to submit.", places(error)) from None


class Beside(TypedDict):
    """Of an AskedJob, what each way in has in its own way."""

    client: str
    deadline_seconds: float | None
    deadline_at: datetime | None
    idempotency: Idempotency | None
    request_id: str
    traceparent: str


def asked(said: JobForm, **beside: Unpack[Beside]) -> AskedJob:
    """What a form says, and what is said beside it."""
    return AskedJob(
        type=said.type,
        params=said.params,
        labels=said.labels,
        flow=said.flow,
        priority=said.priority,
        timeout_seconds=said.timeout_seconds,
        max_wait_seconds=said.max_wait_seconds,
        **beside,
    )


def submission(
    asked: AskedJob, client: ApiClient, outbox_id: UUID | None = None, *, ask_database: bool = True
) -> Submission:
    """What the job would be. Raises InvalidJob, and AuthorsFault for what the type's author got wrong.

    ask_database: if not, no upload is looked for that the params name, and the class is as it was declared.
    """
    job_type = registry.get(asked.type)
    if job_type is None:
        raise UnknownType(asked.type, registry.names())
    owner = client if ask_database else None
    params, cost_class = _weighed(job_type, asked.params, owner, named_before=outbox_id is not None)
    if ask_database:
        cost_class = effective.now(cost_class)
    timeout_seconds, max_wait_seconds = _limits(job_type, cost_class, asked)
    return Submission(
        **said_of(asked),
        client=client,
        cost_class=cost_class,
        timeout_seconds=timeout_seconds,
        max_wait_seconds=max_wait_seconds,
        deadline_in_seconds=None if asked.deadline_seconds is None else max(0.0, asked.deadline_seconds),
        deadline_at=asked.deadline_at,
        max_attempts=job_type.max_attempts,
        max_deliveries=job_type.max_deliveries,
        idempotency=asked.idempotency,
        outbox_id=outbox_id,
        declared_cost_seconds=_cost(job_type, params, timeout_seconds),
        limit_keys=limit_keys.of(job_type, params),
    )


def _weighed(
    job_type: JobType, params: dict[str, Any], owner: ApiClient | None, *, named_before: bool
) -> tuple[BaseModel, CostClass]:
    """The params' model, whose uploads are the owner's if there is one to be asked for, and the class."""
    do_not_fit = f"The params do not fit {job_type.name}."
    try:
        model, cost_class = weighing.weighed(job_type, params)
        if owner is not None:
            uploads.refuse_unknown(owner.pk, model, named_before=named_before)
        return model, cost_class
    except uploads.UnknownUploads as error:
        # As any other param that is not valid: whether another client has such an upload is nobody else's business.
        errors = [{"loc": ["params", *map(str, place)], "msg": str(error)} for place in error.places]
        raise InvalidJob("invalid_params", do_not_fit, errors) from None
    except ValidationError as error:
        raise InvalidJob("invalid_params", do_not_fit, places(error, "params")) from None
    except weighing.ParamsTooLarge as error:
        errors = [{"loc": ["params"], "msg": str(error)}]
        raise InvalidJob("too_large", str(error), errors, limit_bytes=error.limit_bytes) from None


def _limits(job_type: JobType, cost_class: CostClass, asked: AskedJob) -> tuple[float, float]:
    """The timeout and the longest wait, in seconds."""
    try:
        return (
            weighing.timeout_seconds(job_type, cost_class, asked.timeout_seconds, "timeout_seconds"),
            weighing.max_wait_seconds(cost_class, asked.max_wait_seconds, "max_wait_seconds"),
        )
    except weighing.LimitOutOfRange as error:
        message = f"must be from {error.lowest:g} to {error.highest:.15g} seconds here"
        sentence = f"{error.name} is {error.asked:.15g}; it {message}."
        raise InvalidJob("limit_out_of_range", sentence, [{"loc": [error.name], "msg": message}]) from None


def _cost(job_type: JobType, params: BaseModel, timeout_seconds: float) -> float | None:
    try:
        return costs.declared(job_type, params, timeout_seconds)
    except costs.CostTooLarge as error:
        seconds = {"cost_seconds": error.cost, "timeout_seconds": error.timeout}
        errors = [{"loc": ["params"], "msg": str(error)}]
        raise InvalidJob("cost_too_large", str(error), errors, seconds=seconds) from None
