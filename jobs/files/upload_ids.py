"""How a job type asks for a file: a field of its params that holds the id of an upload. No Django.

    class Params(BaseModel):
        table: UploadId

The door takes only ids of the caller's own uploads (jobs/files/uploads.py), in the one form in which they are given
out, so that a job's params can be searched for them.
"""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

FORM = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # also for PostgreSQL
_WHOLE = re.compile(FORM)


class UploadId(str):
    """The id of an upload, as POST /uploads gave it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls._read, core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = "The id of an upload: POST /api/v1/uploads gives it."
        return {**handler(schema), "format": "uuid", "description": described}

    @classmethod
    def _read(cls, given: str) -> "UploadId":
        if not _WHOLE.fullmatch(given):
            raise ValueError(UNKNOWN)
        return cls(given)


UNKNOWN = "There is no upload of that id: POST /api/v1/uploads gives one."

Place = tuple[Any, ...]  # where in the params, as pydantic says it


def found_in(value: object, place: Place = ()) -> Iterator[tuple[Place, UploadId]]:
    """Every id in a validated model or what it holds, and where it stands."""
    if isinstance(value, UploadId):
        yield place, value
    for name, part in _parts(value):
        yield from found_in(part, (*place, name))


def _parts(value: object) -> Iterator[tuple[Any, object]]:
    if isinstance(value, BaseModel):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name, name
            yield name, part
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from enumerate(value)


def is_one(text: str) -> bool:
    """Whether it has the form of an id."""
    return _WHOLE.fullmatch(text) is not None
