"""Reading what GET /jobs was asked for: filters, the size of a page, and the cursor that an earlier page gave."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes, urlencode

from django.http import QueryDict
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobs.api.errors import Problem
from jobs.door.forms import Instant
from jobs.listing import Ended, Filters, Page
from jobs.models import Job
from jobs.states import State
from jobs.storable import holds_nul

LARGEST_PAGE, USUAL_PAGE = 100, 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REPEATABLE = {"state", "label"}
_CURSOR = re.compile(r"before:([0-9]{1,18})")
_CHANGES_CURSOR = re.compile(r"after:([0-9]{1,17}):([0-9]{1,18})")  # microseconds since 1970, and the sequence

_UNKNOWN = "The query is not one that this list knows."

# What follows is told; what is looked at comes below, with better sentences.
Label = Annotated[str, Field(json_schema_extra={"pattern": "^[^:]+:"})]
Cursor = Annotated[str, Field(json_schema_extra={"minLength": 1}, description="The `next_cursor` of an earlier page.")]


class ListQuery(BaseModel):
    """The query of GET /jobs. `state` and `label` may be given more than once; a label is `name:value`."""

    model_config = ConfigDict(extra="forbid")

    state: Annotated[list[State], Field(max_length=6)] = []
    type: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    cost_class: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    label: Annotated[list[Label], Field(max_length=16, description="Each as `name:value`; all of them must fit.")] = []
    accepted_after: Instant | None = None
    cursor: Cursor | None = None
    page_size: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = USUAL_PAGE

    @field_validator("type", "cost_class", "label")
    @classmethod
    def _can_be_looked_for(cls, value: str | list[str] | None) -> str | list[str] | None:
        if holds_nul(value):
            raise ValueError("Nothing that is stored holds the character U+0000.")
        return value

    @field_validator("label")
    @classmethod
    def _has_a_name(cls, labels: list[str]) -> list[str]:
        for label in labels:
            if not label.partition(":")[0] or ":" not in label:
                raise ValueError("A label is asked for as name:value.")
        if len({label.partition(":")[0] for label in labels}) < len(labels):
            raise ValueError("No job has two values of one label; each may be asked for once.")
        return labels


@dataclass(frozen=True)
class PageAsked:
    filters: Filters
    before: int | None
    size: int


def refuse_unreadable(query_string: str) -> None:
    """Django would read bytes that are no UTF-8 as the character that stands for them. Raises Problem (400)."""
    try:
        unquote_to_bytes(query_string).decode()
    except UnicodeDecodeError:
        raise Problem("bad_request", "The query is not UTF-8.") from None


def asked_page(query: QueryDict) -> PageAsked:
    """Raises Problem (422) for what cannot be asked."""
    try:
        read = ListQuery.model_validate(_values(query))
    except ValidationError as error:
        raise Problem.unreadable_query(error, _UNKNOWN) from None
    labels = dict(label.split(":", 1) for label in read.label)
    filters = Filters(tuple(read.state), read.type or "", read.cost_class or "", labels, read.accepted_after)
    return PageAsked(filters, None if read.cursor is None else _before(read.cursor), read.page_size)


def _values(query: QueryDict) -> dict[str, Any]:
    """A repeated name that may not be repeated stays a list, and is refused for it."""
    given = {name: [str(value) for value in values] for name, values in query.lists()}
    return {
        name: values if name in _REPEATABLE or len(values) > 1 else values[0]
        for name, values in given.items()
        if values
    }


def _before(cursor: str) -> int:
    return int(_read_cursor(cursor, _CURSOR)[1])


def _read_cursor(cursor: str, form: re.Pattern[str]) -> re.Match[str]:
    """A cursor may be made up: it only says where to go on, among the caller's own jobs."""
    try:
        plain = base64.urlsafe_b64decode(cursor.encode()).decode()
    except (binascii.Error, ValueError):
        plain = ""
    match = form.fullmatch(plain)
    if match is None:
        message = "must be the next_cursor of an earlier page"
        raise Problem("invalid_request", f"The cursor {message}.", errors=[{"loc": ["cursor"], "msg": message}])
    return match


def _cursor(plain: str) -> str:
    return base64.urlsafe_b64encode(plain.encode()).decode()


def shown(found: Page, jobs: list[dict[str, Any]], query: QueryDict, path: str) -> dict[str, Any]:
    """The body of an answer: the jobs, and where the next page is if there may be more."""
    if found.before is None:
        return {"jobs": jobs, "next_cursor": None, "links": {"next": None}}
    cursor = _cursor(f"before:{found.before}")
    pairs = [(name, value) for name, values in query.lists() if name != "cursor" for value in values]
    return {"jobs": jobs, "next_cursor": cursor, "links": {"next": f"{path}?{urlencode([*pairs, ('cursor', cursor)])}"}}


# ── GET /jobs/changes ────────────────────────────────────────────────────────────────────────────────────────────────


class ChangesQuery(BaseModel):
    """The query of GET /jobs/changes."""

    model_config = ConfigDict(extra="forbid")

    cursor: Cursor | None = None
    page_size: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = USUAL_PAGE


def asked_changes(query: QueryDict) -> tuple[Ended | None, int]:
    """From where on, and how many at most. Raises Problem (422)."""
    try:
        read = ChangesQuery.model_validate(_values(query))
    except ValidationError as error:
        raise Problem.unreadable_query(error, _UNKNOWN) from None
    if read.cursor is None:
        return None, read.page_size
    match = _read_cursor(read.cursor, _CHANGES_CURSOR)
    return Ended(_EPOCH + timedelta(microseconds=int(match[1])), int(match[2])), read.page_size


def shown_changes(found: list[Job], jobs: list[dict[str, Any]], query: QueryDict, path: str) -> dict[str, Any]:
    """There is always a cursor to come back with, but before the first end: it is the last one's."""
    cursor = query.get("cursor")
    if found and found[-1].finished_at is not None:
        microseconds = (found[-1].finished_at - _EPOCH) // timedelta(microseconds=1)
        cursor = _cursor(f"after:{microseconds}:{found[-1].sequence}")
    pairs = [(name, value) for name, values in query.lists() if name != "cursor" for value in values]
    following = f"{path}?{urlencode([*pairs, ('cursor', cursor)])}" if cursor else path
    return {"jobs": jobs, "next_cursor": cursor, "links": {"next": following}}
