"""Requests that no honest client sends: each is refused clearly, stores nothing, and leaves no word of its own in the log.

`xyzzy` stands wherever a caller can put text. What only a socket can send is in tests/acceptance/door/test_hostile.py; bodies that are no JSON
at all are in test_api_bodies.py.
"""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps

from tests.in_process_api import BASE, InProcessApi, problem

pytestmark = pytest.mark.django_db

OK: dict[str, Any] = {"type": "probe.sleep", "params": {"seconds": 0}}
ID = "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10"
WORD = "xyzzy"


@dataclass(frozen=True)
class Asked:
    """A request, and what it must be answered with."""

    status: int
    code: str
    method: str = "GET"
    path: str = "/jobs"
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def _post(status: int, code: str, body: Any = None, headers: dict[str, str] | None = None, **more: Any) -> Asked:
    raw = body if isinstance(body, bytes) else json.dumps(OK if body is None else body).encode()
    return Asked(status, code, "POST", "/jobs", raw, headers or {}, **more)


def _field(**fields: Any) -> Asked:
    return _post(422, "invalid_request", {**OK, **fields})


def _query(query: str, status: int = 422, code: str = "invalid_request") -> Asked:
    return Asked(status, code, path=f"/jobs?{query}")


def _changes(query: str) -> Asked:
    return Asked(422, "invalid_request", path=f"/jobs/changes?{query}")


def _nowhere(path: str) -> Asked:
    return Asked(404, "not_found", path=path)


def _cursor(plain: str | bytes) -> str:
    return base64.urlsafe_b64encode(plain if isinstance(plain, bytes) else plain.encode()).decode()


BODIES = {
    "lists 150 deep in a label": _post(422, "invalid_request", b'{"type": "probe.sleep", "labels": {"a": ' + b"[" * 150 + b"]" * 150 + b"}}"),
    "a number of 1,000 digits for seconds": _post(422, "invalid_params", b'{"type": "probe.sleep", "params": {"seconds": ' + b"9" * 1000 + b"}}"),
    "a huge exponent": _post(400, "bad_request", b'{"type": "probe.sleep", "params": {"seconds": 1e999999999}}'),
    "a list of numbers for a name": _post(422, "invalid_request", {**OK, "type": [1, 2]}),
    "a type of 10,000 characters": _field(type=WORD * 2000),
    "a type with a path in it": _post(422, "unknown_type", {"type": f"../../{WORD}"}),
    "a type that is a template": _post(422, "unknown_type", {"type": "{{7*7}}" + WORD}),
    "a type that is SQL": _post(422, "unknown_type", {"type": f"'; DROP TABLE jobs_job; -- {WORD}"}),
    "a type of wide look-alikes": _post(422, "unknown_type", {"type": "ｐrobe.sleep"}),
    "params that are a list": _field(params=[WORD]),
    "params under a name of Python": _post(422, "invalid_params", {**OK, "params": {"seconds": 0, "__class__": WORD}}),
    "a field of Python": _field(__class__=WORD),
    "a field of the row": _field(state="succeeded"),
    "an id of the caller's choice": _field(id=ID),
    "a client of the caller's choice": _field(client_id=1),
    "labels without an end": _field(labels={f"{WORD}{number}": "" for number in range(1000)}),
    "a label that is a number": _field(labels={WORD: 1e308}),
    "a label's name of 64 characters": _field(labels={"n" * 64: WORD}),
    "a label's value of 100,000 characters": _post(413, "too_large", {**OK, "labels": {WORD: "v" * 100_000}}),
    "a label with U+0000": _post(400, "bad_request", {**OK, "labels": {WORD: "\0"}}),
    "a label with half a character": _post(400, "bad_request", {**OK, "labels": {WORD: "\ud800"}}),
    "a timeout below nothing": _post(422, "limit_out_of_range", {**OK, "timeout_seconds": -1e308}),
    "a timeout of no time": _post(422, "limit_out_of_range", {**OK, "timeout_seconds": 5e-324}),
    "a timeout that is true": _field(timeout_seconds=True),
    "a wait of a year": _post(422, "limit_out_of_range", {**OK, "max_wait_seconds": 31_536_000}),
    "a deadline of a thousand years": _field(deadline_seconds=1e11),
    "a deadline below nothing": _post(422, "deadline_infeasible", {**OK, "deadline_seconds": -1e308}),
    "a deadline in the year 0": _field(deadline_at="0000-01-01T00:00:00Z"),
    "a deadline in the year 1": _field(deadline_at="0001-01-01T00:00:00Z"),
    "a deadline in the year 9999, further west": _field(deadline_at="9999-12-31T23:59:59-23:59"),
    "a deadline on 30 February": _field(deadline_at="2030-02-30T00:00:00Z"),
    "a deadline without a zone": _field(deadline_at="2030-01-31T12:00:00"),
    "a deadline in another zone than there are": _field(deadline_at="2030-01-31T12:00:00+99:00"),
    "a deadline in wide digits": _field(deadline_at="２０３０-01-31T12:00:00Z"),
    "a deadline that is a Unix time": _field(deadline_at=1_900_000_000),
    "a deadline that has passed": _post(422, "deadline_infeasible", {**OK, "deadline_at": "1970-01-01T00:00:00Z"}),
    "names twice": _post(400, "bad_request", b'{"type": "probe.sleep", "params": {"xyzzy": 0, "xyzzy": 1}}'),
    "a byte order mark": _post(400, "bad_request", b"\xef\xbb\xbf" + json.dumps(OK).encode()),
    "UTF-16": _post(400, "bad_request", json.dumps(OK).encode("utf-16"), content_type="application/json; charset=utf-16"),
    "UTF-32": _post(400, "bad_request", json.dumps(OK).encode("utf-32")),
    "Latin-1": _post(400, "bad_request", b'{"type": "probe.sleep", "labels": {"a": "\xe9"}}'),
    "an overlong encoding": _post(400, "bad_request", b'{"type": "probe\xc0\xaesleep"}'),
    "a comment": _post(400, "bad_request", b'{"type": "probe.sleep" /* xyzzy */}'),
    "a comma too many": _post(400, "bad_request", b'{"type": "probe.sleep",}'),
    "gzip": _post(415, "unsupported_media_type", b"\x1f\x8b\x08\x00", {"Content-Encoding": "gzip"}),
    "what is said to be gzip": _post(415, "unsupported_media_type", None, {"Content-Encoding": "gzip, identity"}),
    "XML": _post(415, "unsupported_media_type", b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>", content_type="application/xml"),
    "a pickle": _post(415, "unsupported_media_type", b"cos\nsystem\n(S'xyzzy'\ntR.", content_type="application/x-python-serialize"),
    "a media type of 10,000 characters": _post(415, "unsupported_media_type", content_type="application/" + WORD * 2000),
}  # fmt: skip

HEADERS = {
    "no key": _post(401, "unauthorized", headers={"Authorization": ""}),
    "a key of 100,000 characters": _post(401, "unauthorized", headers={"Authorization": "Bearer " + WORD * 20_000}),
    "a key with U+0000": _post(401, "unauthorized", headers={"Authorization": f"Bearer {WORD}\0"}),
    "a key that is a percent sign": _post(401, "unauthorized", headers={"Authorization": "Bearer %"}),
    "two keys": _post(401, "unauthorized", headers={"Authorization": f"Bearer {WORD},Bearer {WORD}"}),
    "a host of somebody else": Asked(400, "bad_request", headers={"Host": f"{WORD}.example"}),
    "a host with a path": Asked(400, "bad_request", headers={"Host": f"127.0.0.1/{WORD}"}),
    "a host with a name": Asked(400, "bad_request", headers={"Host": f"{WORD}@127.0.0.1"}),
    "a deadline that is no number": _post(400, "bad_request", headers={"X-Deadline-Ms": WORD}),
    "a deadline below nothing": _post(400, "bad_request", headers={"X-Deadline-Ms": "-1"}),
    "a deadline of no time": _post(422, "deadline_infeasible", headers={"X-Deadline-Ms": "0"}),
    "a deadline in wide digits": _post(400, "bad_request", headers={"X-Deadline-Ms": "１０"}),
    "a deadline of 5,000 digits": _post(400, "bad_request", headers={"X-Deadline-Ms": "9" * 5000}),
    "an Idempotency-Key of nothing": _post(400, "bad_request", headers={"Idempotency-Key": ""}),
    "one of 256 characters": _post(400, "bad_request", headers={"Idempotency-Key": "k" * 256}),
    "one with a space": _post(400, "bad_request", headers={"Idempotency-Key": f"{WORD} {WORD}"}),
    "two": _post(400, "bad_request", headers={"Idempotency-Key": f"{WORD},{WORD}"}),
    "one whose quote is open": _post(400, "bad_request", headers={"Idempotency-Key": f'"{WORD}'}),
    "one with U+0000": _post(400, "bad_request", headers={"Idempotency-Key": f"{WORD}\0"}),
    "one that is not ASCII": _post(400, "bad_request", headers={"Idempotency-Key": "é"}),
}

ADDRESSES = {
    "a page of nothing": _query("page_size=0"),
    "a page of everything": _query("page_size=" + "9" * 5000),
    "a page below nothing": _query("page_size=-1"),
    "a page of a fraction": _query("page_size=1e1"),
    "two pages": _query("page_size=1&page_size=2"),
    "a cursor that is none": _query(f"cursor={WORD}"),
    "a cursor of nothing": _query("cursor="),
    "a cursor of bytes": _query("cursor=" + _cursor(b"\xff\xfe")),
    "a cursor below nothing": _query("cursor=" + _cursor("before:-1")),
    "a cursor beyond all numbers": _query("cursor=" + _cursor("before:" + "9" * 19)),
    "a cursor in wide digits": _query("cursor=" + _cursor("before:１")),
    "a cursor with SQL": _query("cursor=" + _cursor("before:1 OR 1=1")),
    "a cursor of the other list": _query("cursor=" + _cursor("after:1:1")),
    "a cursor of this list for the other": _changes("cursor=" + _cursor("before:1")),
    "a cursor of an instant beyond all": _changes("cursor=" + _cursor(f"after:{'9' * 18}:1")),
    "a cursor of 50,000 characters": _query("cursor=" + "A" * 50_000),
    "a state that there is not": _query(f"state={WORD}"),
    "a state in capitals": _query("state=QUEUED"),
    "a hundred states": _query("&".join(["state=queued"] * 100)),
    "a label without a name": _query(f"label=:{WORD}"),
    "a label with U+0000": _query(f"label={WORD}:%00"),
    "a type with U+0000": _query("type=%00"),
    "a type of 10,000 characters": _query("type=" + WORD * 2000),
    "bytes that are no UTF-8": _query("type=%ff%fe", 400, "bad_request"),
    "half a character": _query("type=%ed%a0%80", 400, "bad_request"),
    "an instant before all": _query("accepted_after=0000-00-00T00:00:00Z"),
    "an instant beyond all": _query("accepted_after=9999-12-31T23:59:59-23:59"),
    "a Unix time": _query("accepted_after=1900000000"),
    "a filter that there is not": _query(f"{WORD}=1"),
    "a filter of Django": _query("client__name__startswith=a"),
    "two thousand filters": Asked(400, "bad_request", path="/jobs?" + "&".join(f"a{n}={WORD}" for n in range(2000))),
    "an id in capitals": _nowhere(f"/jobs/{ID.upper()}"),
    "an id without hyphens": _nowhere(f"/jobs/{ID.replace('-', '')}"),
    "an id in braces": _nowhere(f"/jobs/%7b{ID}%7d"),
    "an id as a URN": _nowhere(f"/jobs/urn:uuid:{ID}"),
    "an id of nothing but zeros": _nowhere("/jobs/00000000-0000-0000-0000-000000000000"),
    "an id with a new line": _nowhere(f"/jobs/{ID}%0a"),
    "an id with U+0000": _nowhere(f"/jobs/{ID}%00"),
    "a way up": _nowhere(f"/jobs/%2e%2e/{WORD}"),
    "two slashes": _nowhere(f"//{WORD}"),
    "a parameter of the path": _nowhere(f"/classes;{WORD}=1"),
    "a new line and a header": _nowhere(f"/types/%0d%0aSet-Cookie:%20{WORD}"),
    "a name that is a way up": _nowhere("/classes/.."),
    "a name of 50,000 characters": _nowhere("/types/" + WORD * 10_000),
    "another method": Asked(405, "method_not_allowed", "PUT", body=b"{}"),
    "a method of the caller's own": Asked(405, "method_not_allowed", "XYZZY"),
    "a method of WebDAV": Asked(405, "method_not_allowed", "PROPFIND"),
}

PRECONDITIONS = {
    "If-Match of nothing": {"If-Match": ""},
    "If-Match of a word": {"If-Match": WORD},
    "If-Match of 50,000 characters": {"If-Match": f'"{WORD * 10_000}"'},
    "If-Match of an open quote": {"If-Match": f'"{WORD}'},
    "If-Match of U+0000": {"If-Match": f'"{WORD}\0"'},
    "If-Match of a weak tag": {"If-Match": f'W/"{WORD}"'},
}

# What a recipient ignores, by the standard of each.
IGNORED = {
    "Prefer of a word": {"Prefer": WORD},
    "Prefer of a wait below nothing": {"Prefer": "wait=-1"},
    "Prefer of a wait of 5,000 digits": {"Prefer": "wait=" + "9" * 5000},
    "Prefer of a wait in wide digits": {"Prefer": "wait=１０"},
    "Prefer of nothing but commas": {"Prefer": ",;=," * 1000},
    "If-None-Match of a word": {"If-None-Match": WORD},
    "If-None-Match of an open quote": {"If-None-Match": f'"{WORD}'},
    "If-None-Match of 50,000 characters": {"If-None-Match": f'"{WORD * 10_000}"'},
    "If-Modified-Since of a word": {"If-Modified-Since": WORD},
    "Range of everything": {"Range": "bytes=0-" + "9" * 100},
    "traceparent of a word": {"traceparent": WORD},
    "traceparent of zeros": {"traceparent": f"00-{'0' * 32}-{'0' * 16}-00"},
    "X-Weighbridge-Job of a word": {"X-Weighbridge-Job": WORD, "Prefer": "wait=1"},
    "Accept of another type": {"Accept": f"text/{WORD}"},
    "X-Forwarded-Host of somebody else": {"X-Forwarded-Host": f"{WORD}.example"},
    "X-HTTP-Method-Override": {"X-HTTP-Method-Override": "DELETE"},
    "a cookie of a session": {"Cookie": f"sessionid={WORD}; csrftoken={WORD}"},
    "a language of 10,000 characters": {"Accept-Language": WORD * 2000},
}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _rows() -> dict[str, int]:
    return {model.__name__: model._default_manager.count() for model in apps.get_app_config("jobs").get_models()}


def _must_leave_no_word(api: InProcessApi, log: str) -> None:
    assert "'event': 'request'" in log, "each request has its line"
    assert WORD not in log.lower()
    assert api.key not in log


@pytest.mark.parametrize(
    "asked",
    [*BODIES.values(), *HEADERS.values(), *ADDRESSES.values()],
    ids=[*BODIES, *(f"header: {name}" for name in HEADERS), *(f"address: {name}" for name in ADDRESSES)],
)
def test_it_is_refused_stores_nothing_and_is_not_in_the_log(
    api: InProcessApi, asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    before = _rows()
    response = api.send(asked.method, BASE + asked.path, asked.body, asked.content_type, asked.headers)
    problem(response, asked.status, asked.code)
    assert _rows() == before
    _must_leave_no_word(api, caplog.text)


@pytest.mark.parametrize("name", PRECONDITIONS)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_precondition_that_nothing_can_meet_is_not_met(
    api: InProcessApi, name: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"{BASE}/jobs/{api.submit()}"
    problem(api.send(method, address, headers=PRECONDITIONS[name]), 412, "precondition_failed")
    assert api.send("GET", address).json()["state"] == "queued"
    _must_leave_no_word(api, caplog.text)


@pytest.mark.parametrize("name", IGNORED)
def test_what_a_standard_tells_to_ignore_is_ignored(
    api: InProcessApi, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"/jobs/{api.submit()}"
    plain, odd = api.get(address), api.get(address, IGNORED[name])
    assert (odd.status_code, odd.json()) == (200, plain.json())
    _must_leave_no_word(api, caplog.text)


def test_there_are_many_of_them() -> None:
    assert len(BODIES) + len(HEADERS) + len(ADDRESSES) + 2 * len(PRECONDITIONS) + len(IGNORED) >= 140
