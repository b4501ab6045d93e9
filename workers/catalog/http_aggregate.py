"""Job type `http.aggregate` (light): asks several services at once and returns what they answered in time.

Callers name services; where those are is the operator's setting (`workers/services.py`).
"""

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from jobs import classes
from jobs.storable import holds_nul
from workers import JobContext, job
from workers.services import NAME, services

if TYPE_CHECKING:
    from workers.fanout import CallOutcome
    from workers.http import Call

MAX_CALLS = 20
# Kept back for reading and storing the answers: a partial result in time is worth more than a timeout.
KEPT_BACK_SECONDS, KEPT_BACK_SHARE = 0.5, 0.2

# What RFC 3986 lets stand in a path. A path that a service could read in two ways is refused below.
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_ESCAPES = re.compile(r"(%[0-9A-Fa-f]{2}|[^%])*")
Name = Annotated[str, StringConstraints(pattern=NAME)]
QueryValue = str | int | float | bool


class AggregateCall(BaseModel):
    """One GET of one service."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    service: str = Field(description="The name of a service that the operator has set up.")
    path: str = Field(default="/", max_length=1000, description="Begins with /; goes behind the service's address.")
    query: dict[Name, QueryValue] = Field(default_factory=dict, max_length=50, description="The query's parameters.")
    required: bool = Field(default=False, description="Whether the job fails, and the other calls stop, if this fails.")

    @field_validator("service")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in services():
            known = ", ".join(sorted(services())) or "none"
            raise ValueError(f"There is no service {_shown(name)}; there are: {known}.")
        return name

    @field_validator("path")
    @classmethod
    def _stays_below_the_address(cls, path: str) -> str:
        if not _PATH.fullmatch(path):
            raise ValueError(f"The path {_shown(path)} is not / and what may stand in a URL's path.")
        read = unquote(path)
        # Any of these, written out or as an escape, could be read as another place than the one that was checked.
        plain = _ESCAPES.fullmatch(path) and read.isprintable() and not set(read) & set("%\\")
        if not plain or read.count("/") != path.count("/") or "//" in path or {".", ".."} & set(read.split("/")):
            raise ValueError(f"The path {_shown(path)} has //, . or .. in it, or an escape that hides a character.")
        return path

    @field_validator("query")
    @classmethod
    def _is_finite(cls, query: dict[str, QueryValue]) -> dict[str, QueryValue]:
        if any(value != value or value in (float("inf"), float("-inf")) for value in query.values()):
            raise ValueError("A number in the query must be finite.")
        return query


class AggregateParams(BaseModel):
    """What to ask, and until when to wait."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    calls: dict[Name, AggregateCall] = Field(max_length=MAX_CALLS, description="The calls, by names of your choice.")
    deadline_seconds: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="How long to wait for answers; without it, and at most, as long as the job's own limit allows.",
    )


# Without knowledge of what is set up, the only valid example asks nothing. To read the setting while this is imported
# would end the start with a traceback where the check of the settings says it in a sentence.
EXAMPLE = {"calls": {}, "deadline_seconds": 1.2}


@job("http.aggregate", cost_class="light", params=AggregateParams, example=EXAMPLE)
def aggregate(ctx: JobContext[AggregateParams]) -> dict[str, Any]:
    """Call several HTTP services at once, and return at the deadline with what came.

    Returns {"partial": whether any call has no data, "results": {name: {"ok": true, "status", "data"}
    or {"ok": false, "status": null if no answer came, "error": {"code", "message"}}}}. Data is JSON as data, anything
    else as text. A required call that fails raises RequiredCallFailed.
    """
    from workers.fanout import RequiredCallFailed

    share = _share(ctx.params)
    calls = {name: _call(call, share) for name, call in ctx.params.calls.items()}
    required = [name for name, call in ctx.params.calls.items() if call.required]
    seconds = seconds_to_wait(ctx.params.deadline_seconds, ctx.remaining())
    found = ctx.fan_out(calls, seconds, required=required)
    outcomes = {name: _storable(outcome, share) for name, outcome in found.items()}
    for name in required:
        if not outcomes[name].ok:
            raise RequiredCallFailed(name, outcomes)
    return {
        "partial": not all(outcome.ok for outcome in outcomes.values()),
        "results": {name: _as_data(outcome) for name, outcome in outcomes.items()},
    }


def seconds_to_wait(asked: float | None, remaining: float) -> float:
    latest = remaining - min(KEPT_BACK_SECONDS, KEPT_BACK_SHARE * remaining)
    return latest if asked is None else min(asked, latest)


def _share(params: AggregateParams) -> int:
    """Bytes that one answer may take of what the class keeps of a result."""
    weight = classes.get("light").result_bytes * 9 // 10  # a tenth for names, codes and sentences
    return weight // max(1, len(params.calls))


def _call(call: AggregateCall, max_bytes: int) -> "Call":
    from workers.bulkheads import Bulkhead
    from workers.http import Call

    service = services()[call.service]
    places = Bulkhead(settings.WEIGHBRIDGE_DATA_DIR / "bulkheads", service.pool, service.places)
    return Call(service.base_url + call.path, params=call.query or None, bulkhead=places, max_body_bytes=max_bytes)


def _storable(outcome: "CallOutcome", max_bytes: int) -> "CallOutcome":
    """The outcome, or why its data cannot be kept: one such answer must not cost the job all the others."""
    try:
        size = len(json.dumps(outcome.data, allow_nan=False, ensure_ascii=False).encode())
    except (ValueError, RecursionError):
        return _refused(outcome, "bad_answer", "The answer holds what cannot be stored as JSON.")
    if holds_nul(outcome.data):
        return _refused(outcome, "bad_answer", "The answer holds the character U+0000, which cannot be stored.")
    if size > max_bytes:
        sentence = f"The answer takes {size} bytes of the result; at most {max_bytes} are kept."
        return _refused(outcome, "body_too_large", sentence)
    return outcome


def _refused(outcome: "CallOutcome", code: str, message: str) -> "CallOutcome":
    return replace(outcome, ok=False, data=None, error=code, message=message)


def _as_data(outcome: "CallOutcome") -> dict[str, Any]:
    if outcome.ok:
        return {"ok": True, "status": outcome.status, "data": outcome.data}
    return {"ok": False, "status": outcome.status, "error": {"code": outcome.error, "message": outcome.message}}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
