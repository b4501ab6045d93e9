"""What can be submitted: the params of each job type as components, and bodies for each type around them, of a job and of one in a batch."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from jobs.api.batch_bodies import BatchBody
from jobs.api.openapi.models import REF, schema_of
from jobs.api.openapi.storable import storable
from jobs.door.forms import JobForm
from jobs.files import upload_ids
from jobs.registry import JobType

_TOLD = {
    "max_wait_seconds": "How long the job may wait for its start; at most, and by default, as long as its class lets it.",
    "timeout_seconds": "How long one attempt may take; at most its class's ceiling. By default what its type or class says.",
    "deadline_seconds": "From now; of all deadlines the earliest counts.",
    "deadline_at": "RFC 3339, with an offset; of all deadlines the earliest counts.",
    "priority": "Which of the client's own jobs goes first, the higher; of other clients' jobs it moves none.",
    "flow": "Whose the job is to the caller: its flows take turns as clients do. Empty: none.",
    "labels": "For the caller's own use: jobs can be listed by them.",
}
_TOLD_OF_BATCHES = {
    "jobs": "By names of the caller's own, which the results bear again.",
    "deadline_seconds": "From now; of all deadlines the earliest counts. What has not ended then is cancelled.",
    "deadline_at": "RFC 3339, with an offset; of all deadlines the earliest counts.",
    "atomic": "All are admitted or none; false: each by itself. One that is no job, of an unknown type say, refuses them all with 422 either way.",
}
_KEY = {
    "type": "string",
    "pattern": "^[!-~]{1,255}$",
    "description": "As the Idempotency-Key of a request for this job alone, but never in quotes.",
    "examples": ["order-17"],
}


def components(types: Sequence[JobType]) -> dict[str, Any]:
    """`Submit`: any of the bodies of a job. Without types it says only what holds for all of them. `BatchItem`: the same in a batch."""
    found: dict[str, Any] = {}
    for job_type in types:
        found |= _of_params(job_type)
    bodies = {
        "SubmitBatch": _batch(),
        **_bodies("Submit", types, {}),
        **_bodies("BatchItem", types, {"key": _KEY}),
        **found,
    }
    return {name: storable(schema) for name, schema in bodies.items()}


def examples(types: Iterable[JobType]) -> dict[str, dict[str, Any]]:
    """Of each component that is a body, by what they show. Those of a batch can be sent as they are: they name no file."""
    shown = [job_type for job_type in types if job_type.example is not None]
    jobs = {job_type.name: {"type": job_type.name, "params": job_type.example} for job_type in shown}
    some = [jobs[job_type.name] for job_type in shown if not _names_a_file(job_type)][:2]
    named = {f"n{number}": job for number, job in enumerate(some or [{"type": "numbers.square"}], start=1)}
    batches = {
        "all or none": {"jobs": named},
        "each by itself": {"jobs": named, "deadline_seconds": 60, "atomic": False},
    }
    return {"Submit": jobs, "SubmitBatch": batches}


def _names_a_file(job_type: JobType) -> bool:
    return any(upload_ids.found_in(job_type.params.model_validate(job_type.example)))


def _bodies(name: str, types: Iterable[JobType], more: dict[str, Any]) -> dict[str, Any]:
    found = {f"{name}.{job_type.name}": _body(job_type, more) for job_type in types}
    refs = {job_type.name: REF.format(model=f"{name}.{job_type.name}") for job_type in types}
    return {name: _any_of(refs) if refs else _any_type(more), **found}


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


def _body(job_type: JobType, more: dict[str, Any]) -> dict[str, Any]:
    schema = _any_type(more)
    schema["properties"] |= {
        "type": {"type": "string", "const": job_type.name},
        "params": {"$ref": REF.format(model=f"Params.{job_type.name}")},
    }
    schema["required"] = ["type", "params"] if _needs_some(job_type.params) else ["type"]
    return schema


def _any_type(more: dict[str, Any]) -> dict[str, Any]:
    """`more`: members beside those that the model has."""
    schema = _told(JobForm, _TOLD)
    schema["properties"] |= more
    return schema


def _batch() -> dict[str, Any]:
    schema = _told(BatchBody, _TOLD_OF_BATCHES)
    schema["description"] = "Many jobs to submit."
    schema["properties"]["jobs"]["additionalProperties"] = {"$ref": REF.format(model="BatchItem")}
    return schema


def _told(model: type[BaseModel], texts: dict[str, str]) -> dict[str, Any]:
    schema = schema_of(model)
    schema.pop("title")
    for name, text in texts.items():
        schema["properties"][name]["description"] = text
    for part in schema["properties"].values():
        if not part.get("default"):  # nothing, which goes without saying; generators of clients stumble over {}
            part.pop("default", None)
    return schema


def _needs_some(params: type[BaseModel]) -> bool:
    return any(member.is_required() for member in params.model_fields.values())


def _any_of(bodies: dict[str, str]) -> dict[str, Any]:
    return {
        "description": "A job to submit, by its type.",
        "oneOf": [{"$ref": ref} for ref in bodies.values()],
        "discriminator": {"propertyName": "type", "mapping": bodies},
    }
