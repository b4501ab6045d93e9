"""All operations as one OpenAPI 3.1 document, whose schemas are JSON Schema 2020-12, as pydantic writes them."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from jobs import registry
from jobs.api.openapi import headers, params, problems
from jobs.api.openapi.models import REF, component_of
from jobs.api.openapi.operations import OPERATIONS
from jobs.api.openapi.parts import BYTES, JSON, PROBLEM, YAML, AnswerType, Operation
from jobs.keys import any_of
from jobs.registry import JobType

_IN_PATH = {
    # As Django's routes have it: lower case, with hyphens.
    "job_id": {
        "type": "string",
        "format": "uuid",
        "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    },
    "name": {"type": "string", "pattern": "^[^/]+$"},
}
_IN_PATH |= dict.fromkeys(("batch_id", "upload_id"), _IN_PATH["job_id"])
_TAGS = {
    "Jobs": "Submit, read, wait for, list and cancel jobs. A client sees only its own.",
    "Batches": "Many jobs, one deadline, and whatever was done by then.",
    "Files": "What jobs read, sent before, and what they left.",
    "Classes": "The room in each cost class.",
    "Types": "What can be submitted.",
    "You": "The caller, as it may know itself.",
    "Operations": "What operators change while everything runs.",
    "Health": "For supervisors and monitoring.",
    "Documentation": "This document.",
}
_INFO = {
    "title": "Weighbridge",
    "version": "1",
    "description": (
        "Takes jobs, weighs each, and admits only what can be done in time. A full class answers at once with 503 and a measured "
        "`Retry-After`.\n\nErrors are `application/problem+json` (RFC 9457) with a stable `code`. Every answer bears an `X-Request-Id`. "
        "An address that is not listed here is 404 `not_found`, a method that is not listed 405 `method_not_allowed`."
    ),
}


def document(with_types: bool = True) -> dict[str, Any]:
    """`with_types`: with the params of each registered job type."""
    types = registry.all_types() if with_types else []
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": _paths(types),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of a client."}},
            "headers": {name: _header(name) for name in headers.RESPONSE},
            "examples": {code: {"summary": code, "value": problems.example(code)} for code in problems.PROBLEMS},
            "schemas": {**_shapes(), **_problems(), **params.components(types)},
        },
    }


def _paths(types: Sequence[JobType]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        path = paths.setdefault(operation.path, _path_item(operation.path))
        path[operation.method.lower()] = _operation(operation, types)
    return paths


def _path_item(path: str) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    found = [{"name": name, "in": "path", "required": True, "schema": _IN_PATH[name]} for name in names]
    return {"parameters": found} if found else {}


def _operation(operation: Operation, types: Sequence[JobType]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "tags": [operation.tag],
        "security": [{"key": [scope]} for scope in any_of(operation.scope)] if operation.scope else [],
        "parameters": [*_query(operation), *(_asked_header(name) for name in (*operation.headers, "X-Request-Id"))],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        shown["requestBody"] = _body(operation, types)
    return shown


def _query(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema, within = component_of(operation.query)
    return [_parameter(name, _inlined(part, within)) for name, part in schema["properties"].items()]


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _inlined(schema: dict[str, Any], within: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is null to the model; in an address there is no null."""
    given = [part for part in schema.get("anyOf", [schema]) if part.get("type") != "null"]
    (only,) = given
    rest = {} if only is schema else {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    found = {**only, **rest}
    if not found.get("default", True):  # an empty list
        found.pop("default")
    if "items" in found and "$ref" in found["items"]:
        found["items"] = within[found["items"]["$ref"].rpartition("/")[2]]
    return found


def _asked_header(name: str) -> dict[str, Any]:
    schema, text, example = headers.REQUEST[name]
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": text, "example": example}


def _body(operation: Operation, types: Sequence[JobType]) -> dict[str, Any]:
    of_types = params.examples(types).get(str(operation.body), {})
    examples = _examples({**of_types, **operation.body_examples})
    return {
        "required": True,
        "content": {operation.body_media: {"schema": _schema(operation.body), "examples": examples}},
    }


def _schema(body: type[BaseModel] | str | dict[str, Any] | None) -> dict[str, Any]:
    if isinstance(body, dict):
        return body
    return _ref(body.__name__ if isinstance(body, type) else str(body))


def _ref(name: str) -> dict[str, str]:
    return {"$ref": REF.format(model=name)}


def _examples(examples: Any) -> dict[str, Any]:
    return {name.replace(" ", "-"): {"summary": name, "value": value} for name, value in examples.items()}


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _responses(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for answer in operation.answers:
        _add(found, answer.status, answer.description, _content(answer), {"X-Request-Id": True, **answer.headers})
    for status, codes in _by_status(_codes(operation)).items():
        alone = str(status) not in found
        text = " ".join(f"`{code}`." for code in codes)
        _add(found, status, text, {PROBLEM: _any_problem(codes)}, _problem_headers(codes, alone))
    return {status: found[status] for status in sorted(found)}


def _add(found: dict[str, Any], status: int, text: str, content: dict[str, Any], given: dict[str, bool]) -> None:
    """Two kinds of answer of one status share an entry; what only one of them bears is optional then."""
    entry = found.setdefault(str(status), {"description": text, "headers": {}})
    entry["headers"] |= {
        headers.name_of(key): _header(key, required=True) if always else {"$ref": f"#/components/headers/{key}"}
        for key, always in given.items()
    }
    if content:
        entry["content"] = {**entry.get("content", {}), **content}
    if entry["description"] != text:
        entry["description"] += f" {text}"


def _content(answer: AnswerType) -> dict[str, Any]:
    if answer.body is None:
        return {}
    if isinstance(answer.body, dict):
        schema = answer.body if answer.media in {JSON, YAML, BYTES} else {"type": "string"}
    else:
        schema = _ref(answer.body.__name__)
    content: dict[str, Any] = {"schema": schema}
    if answer.examples:
        content["examples"] = _examples(answer.examples)
    return {media: content for media in (answer.media, answer.or_media) if media}


def _codes(operation: Operation) -> tuple[str, ...]:
    of_keys = ("unauthorized", "forbidden") if operation.scope else ()
    return (*problems.ANYWHERE, *of_keys, *operation.problems)


def _by_status(codes: Sequence[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for code in codes:
        found.setdefault(problems.PROBLEMS[code].status, []).append(code)
    return found


def _any_problem(codes: list[str]) -> dict[str, Any]:
    refs = {code: REF.format(model=problems.component(code)) for code in codes}
    one_of = [{"$ref": ref} for ref in refs.values()]
    schema: dict[str, Any] = {"oneOf": one_of}
    if not any(problems.PROBLEMS[code].codes for code in codes):
        schema["discriminator"] = {"propertyName": "code", "mapping": refs}
    examples = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
    return {"schema": schema if len(codes) > 1 else one_of[0], "examples": examples}


def _problem_headers(codes: list[str], alone: bool) -> dict[str, bool]:
    """What every problem of this status bears is required."""
    kinds = [problems.PROBLEMS[code] for code in codes]
    found = {"X-Request-Id": True, "Cache-Control": alone}
    if any(kind.retry_after for kind in kinds):
        found["Retry-After"] = all(kind.retry_after for kind in kinds)
    for name in dict.fromkeys(name for kind in kinds for name in kind.headers):
        found[name] = alone and all(name in kind.headers for kind in kinds)
    return found


def _header(name: str, required: bool = False) -> dict[str, Any]:
    schema, text, example = headers.RESPONSE[name]
    return {"description": text, "required": required, "schema": schema, "example": example}


# ── Components ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _shapes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for model in (*_bodies_of_answers(), *_bodies_of_requests()):
        schema, within = component_of(model)
        found |= {**within, model.__name__: schema}
    return found


def _bodies_of_answers() -> list[type[BaseModel]]:
    bodies = [answer.body for operation in OPERATIONS for answer in operation.answers]
    return [body for body in bodies if isinstance(body, type)]


def _bodies_of_requests() -> list[type[BaseModel]]:
    return [operation.body for operation in OPERATIONS if isinstance(operation.body, type)]


def _problems() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for code, kind in problems.PROBLEMS.items():
        members, within = component_of(kind.members)
        found |= {**within, problems.component(code): problems.schema(code, members)}
    return found
