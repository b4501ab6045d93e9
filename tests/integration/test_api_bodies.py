"""POST /jobs: bodies that cannot be read, and bodies that are not read at all."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from jobs import classes, registry
from jobs.api import bodies
from jobs.models import Job
from jobs.registry import JobType
from tests.in_process_api import InProcessApi, problem

pytestmark = pytest.mark.django_db

PARAMS_BYTES = classes.get("light").params_bytes
BODY_BYTES = max(c.params_bytes for c in classes.declared().values()) + 16_384


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture
def anything(monkeypatch: pytest.MonkeyPatch) -> str:
    """A job type that takes any params."""
    name = "tests.anything"
    added = {name: JobType(name=name, handler=print, params=Anything, cost_class="light")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **added})
    return name


class Untouchable:
    """A request body that must not be read."""

    def read(self, *sizes: int) -> bytes:
        raise AssertionError("the body was read")

    readline = read


def _unread(api: InProcessApi, length: int, **environ: Any) -> Any:
    return api.raw(b"", **{"CONTENT_LENGTH": str(length), "wsgi.input": Untouchable(), **environ})


def _submit(text: str) -> bytes:
    return b'{"type": "tests.anything", "params": {"a": %s}}' % text.encode("utf-8", "surrogatepass")


UNREADABLE = {
    "half a value": b'{"type": "probe.sleep"',
    "two values": b"{} {}",
    "a word": b"jobs",
    "white space": b"  \n",
    "a form": b"type=probe.sleep",
    "single quotes": b"{'type': 'probe.sleep'}",
    "NaN": _submit("NaN"),
    "Infinity": _submit("Infinity"),
    "minus Infinity": _submit("-Infinity"),
    "depth 1,000": _submit("[" * 1000 + "]" * 1000),
    "depth 40,000": _submit("[" * 20_000 + "]" * 20_000),
    "a lone surrogate": _submit('"\\ud800"'),
    "a lone surrogate as a name": _submit('{"\\udfff": 1}'),
    "a surrogate in bytes": _submit('"\ud800"'),
    "bytes that are not UTF-8": b'{"type": "\xff"}',
    "UTF-16": '{"type": "probe.sleep"}'.encode("utf-16"),
    "a control character": _submit('"\x01"'),
    "NUL in a value": _submit('"\\u0000"'),
    "NUL in a name": _submit('{"a\\u0000b": 1}'),
    "NUL in a list": _submit('[["\\u0000"]]'),
    "NUL in a label": b'{"type": "probe.sleep", "labels": {"a": "\\u0000"}}',
    "NUL in the type": b'{"type": "probe\\u0000"}',
    "a number of 5,000 digits": _submit("1" * 5000),
    "a name twice": _submit('{"b": 1, "b": 2}'),
    "a name twice, spelt in two ways": _submit('{"b": 1, "\\u0062": 2}'),
    "two types": b'{"type": "probe.sleep", "type": "probe.spin"}',
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_json_is_400(api: InProcessApi, anything: str, kind: str) -> None:
    members = problem(api.raw(UNREADABLE[kind]), 400, "bad_request")
    assert members == {}
    assert not Job.objects.exists()


def test_no_body_at_all_is_400(api: InProcessApi) -> None:
    problem(api.raw(b"", CONTENT_LENGTH="0"), 400, "bad_request")


@pytest.mark.parametrize("length", ["", "-5", "many"])
def test_a_length_that_is_none_is_the_callers_fault(api: InProcessApi, length: str) -> None:
    assert 400 <= api.raw(b"{}", CONTENT_LENGTH=length).status_code < 500


@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_a_number_beyond_all_doubles_is_400(api: InProcessApi, anything: str, number: str) -> None:
    problem(api.raw(_submit(number)), 400, "bad_request")


READABLE = {
    "depth 100": "[" * 100 + "]" * 100,
    "an escaped backslash before u0000": '"\\\\u0000"',
    "a pair of surrogates": '"\\ud83d\\ude00"',
    "a large double": "1e22",
    "a number of 1,000 digits": "1" * 1000,
    "a control character in its escape": '"\\u0001"',
    "a name in two objects": '[{"b": 1}, {"b": {"b": 2}}]',
}


@pytest.mark.parametrize("kind", READABLE)
def test_json_that_only_looks_odd_is_kept_as_it_is(api: InProcessApi, anything: str, kind: str) -> None:
    response = api.raw(_submit(READABLE[kind]))
    assert response.status_code == 202, response.content
    assert Job.objects.get().params == {"a": json.loads(READABLE[kind])}


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "text/json",
    ],
)
def test_another_media_type_is_415(api: InProcessApi, content_type: str) -> None:
    problem(api.raw(b'{"type": "probe.sleep"}', content_type), 415, "unsupported_media_type")


def test_a_body_one_byte_over_the_limit_is_413_before_it_is_read(api: InProcessApi) -> None:
    members = problem(_unread(api, BODY_BYTES + 1), 413, "too_large")
    assert members == {"limit_bytes": BODY_BYTES}


def test_a_body_of_the_limit_is_read(api: InProcessApi) -> None:
    body = b'{"type": "probe.sleep", "params": {"seconds": 0}}'
    assert api.raw(body.ljust(BODY_BYTES)).status_code == 202


def test_the_stream_would_notice_a_read(api: InProcessApi) -> None:
    """What the tests around this one rest on."""
    problem(_unread(api, BODY_BYTES), 500, "internal_error")


def test_a_stranger_is_401_before_the_body_is_read(api: InProcessApi) -> None:
    problem(_unread(api, 100, headers={"Authorization": "Bearer nobody"}), 401, "unauthorized")


def test_another_media_type_is_415_before_the_body_is_read(api: InProcessApi) -> None:
    response = api.raw(b"", "text/plain", **{"CONTENT_LENGTH": "100", "wsgi.input": Untouchable()})
    problem(response, 415, "unsupported_media_type")


def _params_of(size: int) -> dict[str, str]:
    """Params whose JSON without spaces is `size` bytes, two of which are one character."""
    return {"a": "ü" + "x" * (size - len('{"a":"ü"}'.encode()))}


def test_params_as_large_as_the_class_allows_are_taken(api: InProcessApi, anything: str) -> None:
    assert api.post(anything, _params_of(PARAMS_BYTES)).status_code == 202


def test_params_one_byte_larger_than_the_class_allows_are_413(api: InProcessApi, anything: str) -> None:
    members = problem(api.post(anything, _params_of(PARAMS_BYTES + 1)), 413, "too_large")
    assert members["limit_bytes"] == PARAMS_BYTES
    assert [place["loc"] for place in members["errors"]] == [["params"]]
    assert not Job.objects.exists()


@pytest.mark.parametrize("deep", [bodies.DEEPEST, bodies.DEEPEST + 1])
def test_how_deep_a_body_may_be_is_said(api: InProcessApi, deep: int) -> None:
    """Within the depth it is JSON, and only no job."""
    response = api.raw(b"[" * deep + b"]" * deep)
    if deep == bodies.DEEPEST:
        problem(response, 422, "invalid_request")
        return
    problem(response, 400, "bad_request")
    assert f"more than {bodies.DEEPEST} deep" in response.json()["detail"]
