"""A job that a call of this installation's own code asks for: read as the API reads a body, so that both doors judge the same."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict

from pydantic import BaseModel
from pydantic_core import from_json
from structlog.contextvars import get_contextvars

from jobs import traces
from jobs.door import asking, idempotency
from jobs.door.asking import IN_PROCESS, AskedJob
from jobs.door.forms import FIRST_YEAR, LAST_YEAR
from jobs.door.invalid import InvalidJob
from jobs.models import ApiClient
from jobs.storable import holds_nul


class UnknownClient(ValueError):
    """There is no API client of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no API client {name!r}; make it in the admin, so that a misspelt name is none.")


class Options(TypedDict, total=False):
    """What a call may say beside the type and the params. See `jobs.submit.submit`."""

    key: str | None
    client: str
    labels: Mapping[str, str] | None
    timeout_seconds: float | None
    max_wait_seconds: float | None
    deadline_seconds: float | None
    deadline_at: datetime | None
    traceparent: str
    priority: int
    flow: str


_IN_A_BODY = ("timeout_seconds", "max_wait_seconds", "deadline_seconds", "priority", "flow")


def read(type: str, params: Mapping[str, Any] | BaseModel | None, options: Options) -> AskedJob:
    """Raises InvalidJob for what is no JSON or not of the form of a job, and BadKey. The type is not looked at yet."""
    if unknown := options.keys() - Options.__annotations__.keys():
        raise TypeError(f"submit() got an unexpected keyword argument {min(unknown)!r}")
    body = {"type": type, "params": _plain(params), "labels": _plain(options.get("labels"))}
    said = asking.form(_as_json(body | {name: value for name, value in options.items() if name in _IN_A_BODY}))
    key = options.get("key")
    return asking.asked(
        said,
        client=options.get("client", IN_PROCESS),
        deadline_seconds=said.deadline_seconds,
        deadline_at=_within_reach(options.get("deadline_at")),
        idempotency=None if key is None else idempotency.of_call(key, said.model_dump(mode="json")),
        request_id=str(get_contextvars().get("request_id", ""))[:128],
        traceparent=traces.accepted(options.get("traceparent", "")),
    )


def _plain(given: Mapping[str, Any] | BaseModel | None) -> Any:
    """A model as the caller of the API would have sent it."""
    if isinstance(given, BaseModel):
        return given.model_dump(mode="json", by_alias=True, round_trip=True)
    return dict(given or {}) if given is None or isinstance(given, Mapping) else given


def _as_json(body: dict[str, Any]) -> Any:
    """What would have come over HTTP."""
    try:
        value = from_json(json.dumps(body, ensure_ascii=False, allow_nan=False).encode(), allow_inf_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob("invalid_request", f"This is no JSON-able data: {error}.") from None
    if holds_nul(value):
        raise InvalidJob("invalid_request", "The job holds the character U+0000, which cannot be stored.")
    return value


def _within_reach(deadline_at: datetime | None) -> datetime | None:
    if deadline_at is None:
        return None
    years = range(FIRST_YEAR, LAST_YEAR + 1)
    if not isinstance(deadline_at, datetime) or deadline_at.utcoffset() is None or deadline_at.year not in years:
        message = f"must be a datetime with a time zone, in the years {FIRST_YEAR} to {LAST_YEAR}"
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
