"""What an operation of the API is described with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from jobs.keys import Needed

JSON, YAML, PROBLEM = "application/json", "application/yaml", "application/problem+json"
BYTES, ANY_TYPE = "application/octet-stream", "*/*"
FILE = {"type": "string", "format": "binary"}
Ref = Literal["Submit", "SubmitBatch"]  # a component that is put together from several models


@dataclass(frozen=True)
class AnswerType:
    """One way to be answered. `headers`: their keys in headers.py → whether it always comes. `body`: None for an answer without one.

    Of another media type than JSON or YAML the body is told as a string. `or_media`: what it may be of too; a generator of clients may know no `*/*`,
    and leave the whole operation out where it finds nothing else.
    """

    status: int
    description: str
    body: type[BaseModel] | dict[str, Any] | None = None
    examples: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, bool] = field(default_factory=dict)
    media: str = JSON
    or_media: str | None = None


@dataclass(frozen=True)
class Operation:
    """One method of one route.

    `path`: as OpenAPI has it. `scope`: what a key needs, of several one; None: open to all. `headers`: of the request, by their names in headers.py. `problems`: codes
    beside those that any request may be answered with.
    """

    method: Literal["GET", "POST", "DELETE", "PATCH", "PUT"]
    path: str
    name: str
    summary: str
    answers: tuple[AnswerType, ...]
    tag: str
    scope: Needed | None = None
    description: str = ""
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    query: type[BaseModel] | None = None
    body: type[BaseModel] | Ref | dict[str, Any] | None = None
    body_media: str = JSON
    body_examples: Mapping[str, Any] = field(default_factory=dict)
