"""What may be said of a job by whoever submits it, whatever its type."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict

LONGEST_DEADLINE_SECONDS = 366 * 86_400
MOST_LABELS = 16
LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100
FLOW_LENGTH = 64
FIRST_YEAR, LAST_YEAR = 1970, 9000  # that every time zone can show, so that a row that holds one can always be read


def _no_colon(name: str) -> str:
    if ":" in name:
        raise ValueError("A label's name holds no colon: jobs are asked for by label as name:value.")
    return name


LabelName = Annotated[str, Field(min_length=1, max_length=63), AfterValidator(_no_colon)]
_NAMES: dict[str, Any] = {"propertyNames": {"minLength": 1, "maxLength": 63, "pattern": r"^[^:\u0000]+$"}}
LabelValue = Annotated[str, Field(max_length=255)]

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _rfc_3339(value: object) -> object:
    """Alone pydantic would take a number, also one in quotes, for a Unix time."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError(
            "must be an RFC 3339 date and time with an offset, such as 2030-01-31T12:00:00Z (in an address, a + is written %2B)"
        )
    return value


def _within_reach(value: datetime) -> datetime:
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise ValueError(f"must be in the years {FIRST_YEAR} to {LAST_YEAR}")
    return value.astimezone(UTC)  # PostgreSQL knows no offset of 16 hours or more


Instant = Annotated[AwareDatetime, Strict(False), BeforeValidator(_rfc_3339), AfterValidator(_within_reach)]


class JobForm(BaseModel):
    """The body of POST /jobs. Only `type` is required."""  # and what an item of a batch, and a call, say

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Annotated[str, Field(max_length=100)]
    params: dict[str, Any] = {}
    priority: Annotated[int, Field(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)] = 0
    flow: Annotated[str, Field(max_length=FLOW_LENGTH)] = ""
    max_wait_seconds: float | None = None
    timeout_seconds: float | None = None
    deadline_seconds: Annotated[float | None, Field(le=LONGEST_DEADLINE_SECONDS)] = None
    deadline_at: Instant | None = None
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=MOST_LABELS, json_schema_extra=_NAMES)] = {}
