"""A handler that is run by hand, by a test or by `manage.py run`: its type, and its params as the door would take them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from jobs import registry
from jobs.classes import CostClass
from jobs.door import weighing
from jobs.door.invalid import places
from jobs.files import upload_ids
from jobs.registry import JobType
from jobs.storable import holds_nul
from workers.artifacts import Artifacts
from workers.context import JobContext
from workers.logbook import LOGGER
from workers.once import Memory, once
from workers.uploads import open_file

UNLIMITED_SECONDS = 86_400.0  # the longest limit there is: nobody sits that long in a debugger


class Refused(ValueError):
    """No job could be made of this; the text is a sentence."""


def type_of(handler: str | Callable[..., Any]) -> JobType:
    """By the name of a type, or by its handler. Raises Refused."""
    if not isinstance(handler, str):
        for job_type in registry.all_types():
            if job_type.handler is handler:
                return job_type
        raise Refused(f"{handler!r} is not the handler of a job type: it has no @job.")
    known = registry.get(handler)
    if known is None:
        raise Refused(f"There is no job type {handler!r}; there are {', '.join(registry.names()) or 'none'}.")
    return known


def params_of(job_type: JobType, given: Any) -> tuple[BaseModel, CostClass]:
    """The validated model, and the class in which the job would run. Raises Refused."""
    data = from_json(_as_json(given), allow_inf_nan=False)
    if not isinstance(data, dict):
        raise Refused("Params must be a JSON object.")
    if holds_nul(data):
        raise Refused("The params hold the character U+0000, which cannot be stored.")
    try:
        return weighing.weighed(job_type, data)
    except ValidationError as error:
        raise Refused(f"The params do not fit {job_type.name}: {_told(error)}.") from error
    except (weighing.UndeclaredClass, weighing.ParamsTooLarge) as error:
        raise Refused(str(error)) from None


def _as_json(given: Any) -> bytes:
    if isinstance(given, BaseModel):
        given = given.model_dump(mode="json")
    try:
        return json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(f"The params are not JSON-able data: {error}.") from None


def timeout_of(job_type: JobType, cost_class: CostClass, asked: float | None) -> float:
    """The longest that one attempt may take, in seconds. Raises Refused."""
    try:
        return weighing.timeout_seconds(job_type, cost_class, asked, "timeout")
    except weighing.LimitOutOfRange as error:
        raise Refused(str(error)) from None


def uploads_of(given: Iterable[str]) -> dict[str, Path]:
    """Files by the ids of the uploads that they stand for, from `<id>=<file>`. Raises Refused."""
    files = {}
    for one in given:
        upload_id, _, file = one.partition("=")
        if not upload_ids.is_one(upload_id) or not Path(file).is_file():
            raise Refused(f"--upload {one}: must be the id of an upload, = and a file that is there.")
        files[upload_id] = Path(file)
    return files


def context_of(
    job_type: JobType,
    params: BaseModel,
    *,
    report: Callable[[float, str], None],
    artifacts: Artifacts,
    uploads: dict[str, Path],
) -> JobContext[Any]:
    """Of an attempt without limits, whose effects are kept for as long as itself."""
    memory = Memory()
    return JobContext(
        params,
        job_id=UUID(int=0),
        attempt=1,
        limit_seconds=UNLIMITED_SECONDS,
        log=structlog.get_logger(f"{LOGGER}.{job_type.name}"),
        report=report,
        once=lambda key, fn: once(memory, key, fn),
        job_retries=job_type.max_attempts > 1,
        artifacts=artifacts,
        open_upload=lambda upload_id: open_file(uploads, upload_id),
    )


def _told(error: ValidationError) -> str:
    """Places and reasons, in the words that callers of the API read, and without the values, which may be secret."""
    return "; ".join(f"{'.'.join(one['loc']) or 'params'}: {one['msg'].rstrip('.')}" for one in places(error))
