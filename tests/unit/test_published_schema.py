"""What holds every answer of the tests against the published schema lets a right one pass and no wrong one."""

import json
from typing import Any

import pytest

from jobs.api.openapi import examples, problems
from tests.published_schema import NotPublished, must_be_published

JOB = f"/api/v1/jobs/{examples.ID}"
HEADERS = {"Content-Type": "application/json", "X-Request-Id": "a", "ETag": f'"{"0" * 32}"', "Retry-After": "1"}
REFUSED = {"Content-Type": "application/problem+json", "X-Request-Id": "a", "Cache-Control": "no-store"}
CHALLENGE = {**REFUSED, "WWW-Authenticate": "Bearer"}


def _answer(**change: Any) -> tuple[str, str, int, dict[str, str], bytes]:
    """A right one to GET /jobs/<id>, changed."""
    given = {"method": "GET", "path": JOB, "status": 200, "headers": HEADERS, "body": examples.RUNNING, **change}
    body = given["body"] if isinstance(given["body"], bytes) else json.dumps(given["body"]).encode()
    return given["method"], given["path"], given["status"], given["headers"], body


def _problem(code: str, **change: Any) -> dict[str, Any]:
    return {"status": problems.PROBLEMS[code].status, "headers": REFUSED, "body": problems.example(code), **change}


def _without(found: dict[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in found.items() if other != name}


UPLOAD = f"/api/v1/uploads/{examples.ID}"
DELETED: dict[str, Any] = {
    "method": "DELETE",
    "path": UPLOAD,
    "status": 204,
    "headers": {"X-Request-Id": "a"},
    "body": b"",
}
OF_A_FILE = {
    "Content-Type": "image/png",
    "X-Request-Id": "a",
    "ETag": f'"{"0" * 64}"',
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Disposition": 'attachment; filename="chart.png"',
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
FILE: dict[str, Any] = {"path": f"{JOB}/artifacts/chart.png", "headers": OF_A_FILE, "body": b"\x89PNG\xff"}
PART: dict[str, Any] = {
    **FILE,
    "status": 206,
    "headers": {**OF_A_FILE, "Content-Range": "bytes 0-4/16"},
}
REFUSED_BATCH: dict[str, Any] = {
    **_problem("none_admitted", headers={**REFUSED, "Retry-After": "12"}),
    "method": "POST",
    "path": "/api/v1/batches",
}

RIGHT: dict[str, dict[str, Any]] = {
    "a job": {},
    "names of headers in lower case": {"headers": {name.lower(): value for name, value in HEADERS.items()}},
    "HEAD": {"method": "HEAD", "body": b""},
    "not modified": {"status": 304, "headers": _without(HEADERS, "Content-Type"), "body": b""},
    "no such job": _problem("not_found"),
    "no key": _problem("unauthorized", headers=CHALLENGE),
    "no turn": _problem("unavailable", headers={**REFUSED, "Retry-After": "1"}),
    "no such address": {**_problem("not_found"), "path": "/api/v1/nowhere"},
    "no such method": {**_problem("method_not_allowed", headers={**REFUSED, "Allow": "GET"}), "method": "PUT"},
    "a preflight": {"method": "OPTIONS", "body": b"", "headers": {"Access-Control-Allow-Origin": "https://a.example"}},
    "a slash that was left out": {
        "path": "/api/docs",
        "status": 301,
        "headers": {"Location": "/api/docs/"},
        "body": b"",
    },
    "nothing left": DELETED,
    "a file": FILE,
    "a file of JSON's type that is none": {**FILE, "headers": {**OF_A_FILE, "Content-Type": "application/json"}},
    "a file with a charset": {**FILE, "headers": {**OF_A_FILE, "Content-Type": "text/csv; charset=latin1"}},
    "HEAD of a file": {**FILE, "method": "HEAD", "body": b""},
    "a part of a file": PART,
    "no such part": {
        **_problem("range_not_satisfiable", headers={**REFUSED, "Content-Range": "bytes */16"}),
        "path": FILE["path"],
    },
    "no such file": {**_problem("not_found"), "path": FILE["path"]},
    "a file that its caller has": {
        **FILE,
        "status": 304,
        "headers": {"X-Request-Id": "a", "ETag": OF_A_FILE["ETag"], "Cache-Control": OF_A_FILE["Cache-Control"]},
        "body": b"",
    },
    "a batch of which nothing was admitted": REFUSED_BATCH,
    "an error of the admin": {"path": "/admin/x", "status": 404, "headers": {}, "body": b"<html>"},
}

WRONG: dict[str, dict[str, Any]] = {
    "an unknown member": {"body": {**examples.RUNNING, "surprise": 1}},
    "an unknown member within": {"body": {**examples.RUNNING, "links": {"self": "/", "other": "/"}}},
    "a missing member": {"body": {name: value for name, value in examples.RUNNING.items() if name != "labels"}},
    "a member of another type": {"body": {**examples.RUNNING, "attempt": "1"}},
    "a state that there is not": {"body": {**examples.RUNNING, "state": "lost"}},
    "an id that is none": {"body": {**examples.RUNNING, "id": "7"}},
    "an instant without its milliseconds": {"body": {**examples.RUNNING, "accepted_at": "2030-01-31T12:00:00Z"}},
    "an instant that is none": {"body": {**examples.RUNNING, "accepted_at": "2030-13-31T12:00:00.000Z"}},
    "no JSON": {"body": b"{"},
    "no body": {"body": b""},
    "another status": {"status": 201},
    "a body with 304": {"status": 304, "headers": _without(HEADERS, "Content-Type")},
    "a media type with 304": {"status": 304, "body": b""},
    "a body with HEAD": {"method": "HEAD"},
    "another media type": {"headers": {**HEADERS, "Content-Type": "text/html"}},
    "no media type": {"headers": {name: value for name, value in HEADERS.items() if name != "Content-Type"}},
    "no X-Request-Id": {"headers": {name: value for name, value in HEADERS.items() if name != "X-Request-Id"}},
    "no ETag": {"headers": {name: value for name, value in HEADERS.items() if name != "ETag"}},
    "an ETag of another form": {"headers": {**HEADERS, "ETag": '"1"'}},
    "a header that is not told of": {"headers": {**HEADERS, "X-Powered-By": "us"}},
    "a Retry-After that is no number": {"headers": {**HEADERS, "Retry-After": "soon"}},
    "a problem of another status": {**_problem("not_found"), "status": 401, "headers": CHALLENGE},
    "a problem that it cannot have": {**_problem("not_finished"), "headers": {**REFUSED, "Retry-After": "1"}},
    "a problem with an unknown member": _problem("not_found", body={**problems.example("not_found"), "surprise": 1}),
    "a problem that may be stored": _problem("not_found", headers={**REFUSED, "Cache-Control": "max-age=5"}),
    "a final problem with Retry-After": _problem("not_found", headers={**REFUSED, "Retry-After": "1"}),
    "a retryable problem without it": _problem("unavailable"),
    "a challenge without its scheme": _problem("unauthorized"),
    "an answer of no address": {"path": "/api/v1/nowhere"},
    "an answer of no method": {"method": "PATCH"},
    "an address that only begins like one": {"path": f"{JOB}/"},
    "a job of another id's form": {"path": "/api/v1/jobs/7"},
    "a way to elsewhere": {"path": "/api/docs", "status": 301, "headers": {"Location": "//a.example/"}, "body": b""},
    "a body with 204": {**DELETED, "body": b"gone"},
    "a media type with 204": {**DELETED, "headers": {"X-Request-Id": "a", "Content-Type": "text/html"}},
    "a file without its name": {**FILE, "headers": _without(OF_A_FILE, "Content-Disposition")},
    "a file that a browser shows": {**FILE, "headers": {**OF_A_FILE, "Content-Disposition": "inline"}},
    "a file without its type": {**FILE, "headers": _without(OF_A_FILE, "Content-Type")},
    "a file of a type that is none": {**FILE, "headers": {**OF_A_FILE, "Content-Type": "picture"}},
    "a file that others may keep": {**FILE, "headers": {**OF_A_FILE, "Cache-Control": "public"}},
    "a file with the ETag of a job": {**FILE, "headers": {**OF_A_FILE, "ETag": HEADERS["ETag"]}},
    "a part that does not say which": {**PART, "headers": OF_A_FILE},
    "the whole with a range": {**PART, "status": 200},
    "no such part, without how large it is": {**_problem("range_not_satisfiable"), "path": FILE["path"]},
    "a part of a job": {**_problem("range_not_satisfiable", headers={**REFUSED, "Content-Range": "bytes */16"})},
    "a batch of which nothing was admitted without its verdicts": {
        **REFUSED_BATCH,
        "body": _without(problems.example("none_admitted"), "results"),
    },
    "plain text of no address": {**_problem("not_found"), "path": "/api/v1/nowhere", "headers": {"X-Request-Id": "a"}},
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_answer_passes(kind: str) -> None:
    must_be_published(*_answer(**RIGHT[kind]))


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_does_not(kind: str) -> None:
    with pytest.raises(NotPublished):
        must_be_published(*_answer(**WRONG[kind]))
