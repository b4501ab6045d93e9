"""What operators change while everything runs, over HTTP: parse, call, render. Who may do so (`ops:write`) may do so to all clients' things."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api import serializers
from jobs.api.bodies import json_of
from jobs.api.errors import Problem, changing_something
from jobs.api.view import View, caller_of
from jobs.control import changing, told
from jobs.control.changing import WHY_LENGTH, Operator, UnknownSubject, WrongControl
from jobs.door.invalid import InvalidJob, places
from jobs.keys import OPS_READ, OPS_WRITE, Needed
from jobs.row_locks import RowHeld


def _told(schema: dict[str, Any]) -> None:
    """What is not said stays as it is: there is no default. And no string holds U+0000."""
    schema.pop("default", None)
    if schema.get("type") == "string":
        schema["pattern"] = r"^[^\u0000]*$"


_Switch = Annotated[bool, Field(json_schema_extra=_told)]
_Seconds = Annotated[float | None, Field(json_schema_extra=_told)]


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    why: Annotated[
        str, Field(max_length=WHY_LENGTH, json_schema_extra=_told, description="In your own words, for the record.")
    ] = ""


class ChangeClass(_Change):
    """What is to be changed of a class; what is not named stays. A limit that is null is again what the settings say."""

    paused: _Switch = False
    draining: _Switch = False
    max_waiting: Annotated[int | None, Field(json_schema_extra=_told)] = None
    max_backlog_seconds: _Seconds = None
    max_wait_seconds: _Seconds = None
    timeout_seconds: _Seconds = None


class ChangeType(_Change):
    """What is to be changed of a job type; what is not named stays."""

    paused: _Switch = False
    refused: _Switch = False


class ChangeClient(_Change):
    """What is to be changed of a client; what is not named stays."""

    suspended: _Switch = False


def change(request: Request, kind: str, name: str, body: type[_Change]) -> None:
    """Whatever the body says. Raises InvalidJob for one that cannot be read, and Problem."""
    wanted = _wanted(json_of(request), body, kind)
    by = Operator("API", caller_of(request).name, wanted.pop("why", ""))
    try:
        with changing_something():
            changing.CHANGE[kind](name, wanted, by)
    except UnknownSubject as error:
        raise Problem.not_found(str(error)) from None
    except WrongControl as error:
        raise Problem("limit_out_of_range", str(error), errors=[{"loc": [error.field], "msg": str(error)}]) from None
    except RowHeld:
        raise Problem.held(kind) from None


def _wanted(said: Any, body: type[_Change], kind: str) -> dict[str, Any]:
    try:
        return body.model_validate(said).model_dump(exclude_unset=True)
    except ValidationError as error:
        sentence = f"This is nothing that can be changed of a {kind}; there are: {', '.join(body.model_fields)}."
        raise InvalidJob("invalid_request", sentence, places(error)) from None


class OneClient(View):
    scopes: Mapping[str, Needed] = {"PATCH": OPS_WRITE}

    def patch(self, request: Request, name: str) -> Response:
        change(request, "client", name, ChangeClient)
        return Response(told.switches_of("client", name))


class Controls(View):
    scopes: Mapping[str, Needed] = {"GET": OPS_READ}

    def get(self, request: Request) -> Response:
        return Response({"controls": [serializers.control(subject) for subject in told.everything()]})
