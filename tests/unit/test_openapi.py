"""The published schema is valid, complete, and says what the code says."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import jsonschema_rs
import pytest
import yaml
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import example, given
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from jobs import registry
from jobs.api import digests
from jobs.api.codes import CODES
from jobs.api.errors import Problem
from jobs.api.openapi import examples, formats, headers, problems
from jobs.api.openapi.document import document
from jobs.api.openapi.operations import OPERATIONS
from jobs.api.openapi.parts import Operation
from jobs.door import idempotency
from jobs.door.refusals import OF_ITEMS, REFUSALS
from jobs.states import Refusal

DOCUMENT, UNTYPED = document(), document(with_types=False)
SCHEMAS = {"components": {"schemas": DOCUMENT["components"]["schemas"]}}
ONLY_ANYWHERE = {"method_not_allowed"}  # of no operation
NOT_FOR_PAGES = {"Allow", "Cache-Control", "Content-Security-Policy", "Vary", "WWW-Authenticate"}


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, **SCHEMAS}, validate_formats=True)


@pytest.mark.parametrize("with_types", [True, False])
def test_it_is_openapi(with_types: bool) -> None:
    OpenAPIV31SpecValidator(document(with_types)).validate()


def test_a_validator_would_notice_what_is_not() -> None:
    broken = {**DOCUMENT, "paths": {"no-slash": {}}}
    assert list(OpenAPIV31SpecValidator(broken).iter_errors())


def test_yaml_says_the_same() -> None:
    assert yaml.safe_load(formats.written(DOCUMENT, "yaml")) == DOCUMENT


# ── Complete ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_route_and_method_is_described_with_the_scope_that_it_asks_for() -> None:
    described = {(operation.method, operation.path): operation.scope for operation in OPERATIONS}
    assert len(described) == len(OPERATIONS)
    assert described == dict(_routed(get_resolver().url_patterns))


def _routed(patterns: Any, before: str = "/") -> Iterator[tuple[tuple[str, str], str | None]]:
    """(method, path as OpenAPI has it) → scope, of every route but the admin and what catches the rest."""
    for pattern in patterns:
        path = before + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            if path != "/admin/":
                yield from _routed(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and not path.endswith("{anything}"):
            scopes = pattern.callback.view_class.scopes if hasattr(pattern.callback, "view_class") else {"GET": None}
            yield from (((method, path), scope) for method, scope in scopes.items())


def test_every_problem_is_described_and_used() -> None:
    assert {code for code, kind in problems.PROBLEMS.items() if not kind.codes} == CODES.keys()
    used = {code for operation in OPERATIONS for code in operation.problems} | {*problems.ANYWHERE}
    assert CODES.keys() - used - {"unauthorized", "forbidden"} == ONLY_ANYWHERE


def test_every_refusal_of_admission_is_one_of_a_submit() -> None:
    one, many = ({*_named(name).problems, *problems.ANYWHERE} for name in ("submit", "submitBatch"))
    assert set(get_args(Refusal)) <= many
    assert set(get_args(Refusal)) - {"batch_too_large"} <= one


def _named(name: str) -> Operation:
    (found,) = [operation for operation in OPERATIONS if operation.name == name]
    return found


def test_every_refusal_of_an_item_is_one_of_a_batch_of_which_none_is_admitted() -> None:
    assert {*problems.PROBLEMS["none_admitted"].codes} == OF_ITEMS.keys()
    many = _named("submitBatch").problems
    assert OF_ITEMS.keys() <= {*many}


def test_every_refusal_of_admission_has_a_kind() -> None:
    assert {*get_args(Refusal)} <= REFUSALS.keys()


def test_a_problem_is_told_with_the_status_of_its_code() -> None:
    for code, kind in CODES.items():
        told = Problem(code, "…", retry_after=1 if kind.retryable else None).response()
        published = {"status": kind.status, "title": kind.title, "retryable": kind.retryable}
        assert json.loads(told.content).items() >= published.items() <= problems.example(code).items()


def test_a_page_of_another_origin_may_read_every_header() -> None:
    assert {*map(headers.name_of, headers.RESPONSE)} - NOT_FOR_PAGES == set(settings.CORS_EXPOSE_HEADERS)


# ── Useful ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "fits"), [("team", True), ("a:b", False), ("a\0b", False), ("", False), ("n" * 64, False)]
)
def test_the_name_of_a_label_is_told_as_the_door_takes_it(name: str, fits: bool) -> None:
    shown = {"type": "probe.sleep", "params": {"seconds": 0}, "labels": {name: "x"}}
    assert _validator({"$ref": "#/components/schemas/Submit"}).is_valid(shown) is fits


def test_every_answer_is_of_a_type_that_generators_of_clients_know() -> None:
    """One that knows no media type of an answer leaves out the whole operation: openapi-python-client did."""
    for operation in OPERATIONS:
        for answer in operation.answers:
            assert "*" not in answer.media


def _contents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            name = f"{method} {path}"
            if "requestBody" in operation:
                yield from ((f"{name} body", content) for content in operation["requestBody"]["content"].values())
            for status, response in operation["responses"].items():
                yield from ((f"{name} {status} {media}", c) for media, c in response.get("content", {}).items())


CONTENTS = dict(_contents())


@pytest.mark.parametrize("name", CONTENTS)
def test_every_body_has_examples_and_they_fit(name: str) -> None:
    content = CONTENTS[name]
    if name.startswith(("get /api/schema/ 200", "get /api/docs/ 200", "get / 200")):
        return
    shown = [_value(one) for one in content["examples"].values()]
    assert shown
    for one in shown:
        _validator(content["schema"]).validate(one)


def test_the_example_of_a_digest_is_that_of_the_example_of_an_upload() -> None:
    """So that whoever tries both is not refused."""
    (content,) = _named("upload").body_examples.values()
    assert digests.asked({"Content-Digest": headers.REQUEST["Content-Digest"][2]}) == examples.UPLOAD["sha256"]
    assert hashlib.sha256(content.encode()).hexdigest() == examples.UPLOAD["sha256"]
    assert len(content) == examples.UPLOAD["bytes"]


def _value(example: dict[str, Any]) -> Any:
    return (
        DOCUMENT["components"]["examples"][example["$ref"].rpartition("/")[2]]["value"]
        if "$ref" in example
        else example["value"]
    )


@pytest.mark.parametrize("name", headers.RESPONSE)
def test_the_example_of_a_header_fits(name: str) -> None:
    schema, text, example = headers.RESPONSE[name]
    _validator(schema).validate(example)
    assert text


@given(st.text('ab!~-.,"\\ é', max_size=6).filter(lambda text: text == text.strip()))
@example("k" * 255)
@example("k" * 256)
def test_an_idempotency_key_is_told_as_it_is_read(header: str) -> None:
    try:
        idempotency.read(header, "POST", "/", {})
        is_read = True
    except idempotency.BadKey:
        is_read = False
    assert _validator(headers.REQUEST["Idempotency-Key"][0]).is_valid(header) is is_read


@given(st.text('ab!~-.,"\\ é', max_size=6))
@example("k" * 255)
@example("k" * 256)
def test_an_items_own_key_is_told_as_it_is_read(key: str) -> None:
    try:
        idempotency.of_item(key, "/", {})
        is_read = True
    except idempotency.BadKey:
        is_read = False
    schema = UNTYPED["components"]["schemas"]["BatchItem"]["properties"]["key"]
    assert _validator(schema).is_valid(key) is is_read


@pytest.mark.parametrize("name", registry.names())
def test_the_body_of_each_type_is_told_with_its_params(name: str) -> None:
    job_type, submit = registry.get(name), _validator({"$ref": "#/components/schemas/Submit"})
    many = _validator({"$ref": "#/components/schemas/SubmitBatch"})
    assert job_type is not None
    good: dict[str, Any] = {"type": name, "params": job_type.example}
    submit.validate(good)
    many.validate({"jobs": {"a": good, "b": {**good, "key": "order-17"}}})
    for wrong in (
        {**good, "params": 5},
        {**good, "surprise": 1},
        {**good, "params": {**good["params"], "surprise": 1}},
    ):
        assert not submit.is_valid(wrong), wrong
        assert not many.is_valid({"jobs": {"a": good, "b": wrong}}), wrong
    assert not submit.is_valid({**good, "key": "order-17"}), "only an item of a batch has a key of its own"
    assert not many.is_valid({"jobs": {"a": {**good, "key": "two words"}}})


@pytest.mark.parametrize("jobs", [{}, {"": {}}, {"n" * 65: {}}, {f"n{number}": {} for number in range(101)}, [], None])
def test_what_cannot_be_the_jobs_of_a_batch_does_not_fit(jobs: Any) -> None:
    job = {"type": "numbers.sum_squares", "params": {"n": 1000}}
    given = dict.fromkeys(jobs, job) if isinstance(jobs, dict) else jobs
    many = _validator({"$ref": "#/components/schemas/SubmitBatch"})
    assert not many.is_valid({"jobs": given})
    assert many.is_valid({"jobs": {"n": job}})


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("Submit", {"type": "probe.sleep", "params": {"seconds": 0}, "labels": {"team": "{}"}}),
        ("Submit", {"type": "probe.sleep", "params": {"seconds": 0}, "labels": {"{}": "ops"}}),
        ("SubmitBatch", {"jobs": {"{}": {"type": "probe.sleep", "params": {"seconds": 0}}}}),
        ("Submit", {"type": "http.aggregate", "params": {"calls": {"a{}": {"service": "prices", "path": "/"}}}}),
    ],
)
def test_no_string_holds_what_cannot_be_stored(where: str, body: dict[str, Any]) -> None:
    """Each fits with a plain word in that place."""
    validator, text = _validator({"$ref": f"#/components/schemas/{where}"}), json.dumps(body)
    assert validator.is_valid(json.loads(text.replace("{}", "word", 1)))
    assert not validator.is_valid(json.loads(text.replace("{}", r"wo\u0000rd", 1)))


def test_generators_of_clients_find_no_two_models_of_one_name_and_no_object_as_default() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    titles = [schema["title"] for schema in schemas.values() if "title" in schema]
    assert sorted(titles) == sorted(set(titles))
    bodies = [
        schema for name, schema in schemas.items() if name.startswith(("Submit", "BatchItem")) and "oneOf" not in schema
    ]
    assert [part for body in bodies for part in body["properties"].values() if part.get("default") == {}] == []


@pytest.mark.parametrize("name", ["ItemSucceeded", "ItemFailed"])
def test_a_mark_of_an_item_is_there_or_not_and_nothing_says_that_it_goes_without_saying(name: str) -> None:
    item = DOCUMENT["components"]["schemas"][name]
    marks = {"data_expired", "omitted", "links"} & item["properties"].keys()
    assert marks >= {"omitted", "links"}
    assert not marks & set(item["required"])
    assert [mark for mark in marks if "default" in item["properties"][mark]] == []


def test_a_type_that_there_is_not_does_not_fit() -> None:
    assert not _validator({"$ref": "#/components/schemas/Submit"}).is_valid({"type": "no.such_type", "params": {}})


def test_without_types_there_are_no_params() -> None:
    assert [name for name in UNTYPED["components"]["schemas"] if name.startswith("Params.")] == []
    assert [name for name in DOCUMENT["components"]["schemas"] if name.startswith("Params.")]
