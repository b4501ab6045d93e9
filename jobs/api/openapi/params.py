"""What can be submitted: the params of each job type as components, and a body for each type around them."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from jobs.api.openapi.models import REF, schema_of
from jobs.api.serializers import SubmitBody
from jobs.registry import JobType

_TOLD = {
    "max_wait_seconds": "How long the job may wait for its start; at most, and by default, as long as its class lets it.",
    "timeout_seconds": "How long one attempt may take; at most its class's ceiling. By default what its type or class says.",
    "deadline_seconds": "From now; of all deadlines the earliest counts.",
    "deadline_at": "RFC 3339, with an offset; of all deadlines the earliest counts.",
    "labels": "For the caller's own use: jobs can be listed by them.",
}


def submit_components(types: Iterable[JobType]) -> dict[str, Any]:
    """`Submit`: any of the bodies. Without types it says only what holds for all of them."""
    found: dict[str, Any] = {}
    for job_type in types:
        found |= _of_params(job_type)
        found[_body_name(job_type)] = _body(job_type)
    bodies = {job_type.name: REF.format(model=_body_name(job_type)) for job_type in types}
    return {"Submit": _any_of(bodies) if bodies else _any_type(), **found}


def submit_examples(types: Iterable[JobType]) -> dict[str, Any]:
    return {
        job_type.name: {"type": job_type.name, "params": job_type.example}
        for job_type in types
        if job_type.example is not None
    }


def _of_params(job_type: JobType) -> dict[str, Any]:
    """A type's name has no `-`, so no model within one type is called as another type."""
    name = f"Params.{job_type.name}"
    schema = job_type.params.model_json_schema(ref_template=REF.format(model=f"{name}-{{model}}"))
    found = {name: schema, **{f"{name}-{model}": part for model, part in schema.pop("$defs", {}).items()}}
    for part in found.values():
        part.pop(
            "title", None
        )  # of two types that share a model each has its own; by its title a generator would name both alike
    return found


def _body(job_type: JobType) -> dict[str, Any]:
    schema = _any_type()
    schema["properties"] |= {
        "type": {"type": "string", "const": job_type.name},
        "params": {"$ref": REF.format(model=f"Params.{job_type.name}")},
    }
    schema["required"] = ["type", "params"] if _needs_some(job_type.params) else ["type"]
    return schema


def _any_type() -> dict[str, Any]:
    schema = schema_of(SubmitBody)
    schema.pop("title")
    for name, text in _TOLD.items():
        schema["properties"][name]["description"] = text
    for part in schema["properties"].values():
        if not part.get("default"):  # nothing, which goes without saying; generators of clients stumble over {}
            part.pop("default", None)
    return schema


def _needs_some(params: type[BaseModel]) -> bool:
    return any(member.is_required() for member in params.model_fields.values())


def _body_name(job_type: JobType) -> str:
    return f"Submit.{job_type.name}"


def _any_of(bodies: dict[str, str]) -> dict[str, Any]:
    return {
        "description": "A job to submit, by its type.",
        "oneOf": [{"$ref": ref} for ref in bodies.values()],
        "discriminator": {"propertyName": "type", "mapping": bodies},
    }
