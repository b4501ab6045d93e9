"""What only a socket can send: each is refused clearly, by us or by the server before us, and nothing of it is kept.

`xyzzy` stands wherever a caller can put text. What any client could send is in tests/integration/test_api_hostile.py; slow callers are
in test_serving.py.
"""

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stack.local import Stack
from tests.published_schema import must_be_published
from tests.waiting import eventually

WORD = b"xyzzy"
BODY = b'{"type": "xyzzy"}'  # of a type that there is not: whoever reads it as it is meant answers 422
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked"
CLASSES = b"/api/v1/classes"
A_JOB = b"/api/v1/jobs/0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10"
SERVERS_OWN = ""  # no problem but an empty body: the server refused before we were asked
FILES_OWN = "Not found"  # the server's word for a static file that is not there


@dataclass(frozen=True)
class Sent:
    """A request, but for its Host and key unless it brings its own, and the status and code that it must be answered with."""

    line: bytes
    status: int
    code: str
    headers: tuple[bytes, ...] = ()
    body: bytes = b""
    host: bytes | None = b"127.0.0.1"
    end: bytes = b"\r\n"

    def raw(self, key: str) -> bytes:
        hosts = [] if self.host is None else [b"Host: " + self.host]
        always = [
            *hosts,
            b"Authorization: Bearer " + key.encode(),
            b"Content-Type: application/json",
            b"Connection: close",
        ]
        return self.end.join([self.line, *always, *self.headers, b"", b""]) + self.body


def _post(status: int, code: str, *headers: bytes, body: bytes = BODY, **more: Any) -> Sent:
    return Sent(b"POST /api/v1/jobs HTTP/1.1", status, code, headers, body, **more)


def _get(status: int, code: str, *headers: bytes, path: bytes = CLASSES, **more: Any) -> Sent:
    return Sent(b"GET " + path + b" HTTP/1.1", status, code, headers, **more)


def _line(line: bytes, status: int, code: str, **more: Any) -> Sent:
    return Sent(line, status, code, **more)


FRAMES = {
    "two lengths that differ": _post(400, SERVERS_OWN, b"Content-Length: 17", b"Content-Length: 5"),
    "two lengths in one": _post(400, SERVERS_OWN, b"Content-Length: 17, 17"),
    "a length with a sign": _post(400, SERVERS_OWN, b"Content-Length: +17"),
    "a length below nothing": _post(400, SERVERS_OWN, b"Content-Length: -1"),
    "a length in hexadecimal": _post(400, SERVERS_OWN, b"Content-Length: 0x11"),
    "a length beyond all numbers": _post(400, SERVERS_OWN, b"Content-Length: " + b"9" * 30),
    "a length that is a word": _post(400, SERVERS_OWN, b"Content-Length: xyzzy"),
    "no length": _post(400, "bad_request", body=b""),
    "a length of nothing": _post(400, "bad_request", b"Content-Length: 0", body=b""),
    "an unknown coding": _post(400, SERVERS_OWN, b"Transfer-Encoding: xyzzy"),
    "the coding that is none": _post(400, SERVERS_OWN, b"Transfer-Encoding: identity"),
    "two codings": _post(400, "bad_request", b"Transfer-Encoding: gzip, chunked", body=CHUNKS),
    "two codings in two headers": _post(400, "bad_request", b"Transfer-Encoding: gzip", CHUNKED, body=CHUNKS),
    "chunked twice": _post(400, "bad_request", CHUNKED, CHUNKED, body=CHUNKS),
    "chunked that is not last": _post(400, SERVERS_OWN, b"Transfer-Encoding: chunked, gzip", body=CHUNKS),
    "a chunk whose size is a word": _post(400, "bad_request", CHUNKED, body=b"xyzzy\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk beyond all numbers": _post(400, "bad_request", CHUNKED, body=b"f" * 17 + b"\r\n" + BODY),
    "a chunk below nothing": _post(400, "bad_request", CHUNKED, body=b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk longer than it says": _post(400, "bad_request", CHUNKED, body=b"2\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "nothing but chunks' words": _post(400, "bad_request", CHUNKED, body=b"0;xyzzy=1\r\n\r\n"),
    # The coding counts (RFC 9112, 6.3): the server drops the length, so what it would cut off is no second request.
    "a length beside chunks": _post(422, "unknown_type", b"Content-Length: 3", CHUNKED, body=CHUNKS),
    "a header behind the chunks": _post(
        422, "unknown_type", CHUNKED, body=CHUNKS[:-2] + b"Authorization: Bearer xyzzy\r\n\r\n"
    ),
    "a word behind a chunk's size": _post(
        422, "unknown_type", CHUNKED, body=b"%x;xyzzy=1\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    ),
    "a wish to be asked that there is not": _post(422, "unknown_type", b"Expect: xyzzy", b"Content-Length: 17"),
    "one length twice": _post(422, "unknown_type", b"Content-Length: 17", b"Content-Length: 17"),
}

HEADS = {
    "a space before the colon": _get(400, SERVERS_OWN, b"X-A : xyzzy"),
    "no colon": _get(400, SERVERS_OWN, b"xyzzy"),
    "no name": _get(400, SERVERS_OWN, b": xyzzy"),
    "a line that goes on": _get(400, SERVERS_OWN, b"X-A: b\r\n xyzzy"),
    "a carriage return": _get(400, SERVERS_OWN, b"X-A: b\rX-B: xyzzy"),
    "U+0000": _get(400, SERVERS_OWN, b"X-A: xyzzy\0"),
    "a name that is not ASCII": _get(400, SERVERS_OWN, b"X-\xc3\xa9: xyzzy"),
    "a header of 1,000,000 bytes": _get(431, SERVERS_OWN, b"X-A: " + b"a" * 1_000_000),
    "300 headers": _get(431, SERVERS_OWN, *(b"X-%d: a" % number for number in range(300))),
    "1,000 headers": _get(431, SERVERS_OWN, *(b"X-%d: xyzzy" % number for number in range(1000))),
    "a wish for HTTP/2 with an unknown host": _get(
        400, "bad_request", b"Upgrade: h2c", b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAMAAABkAAQ", b"Host: xyzzy.example"
    ),
    "no host": _get(400, "bad_request", host=None),
    "an empty host": _get(400, "bad_request", host=b""),
    "two hosts": _get(400, "bad_request", b"Host: xyzzy.example"),
    "a host that is not ASCII": _get(400, "bad_request", host=b"xyzzy\xff"),
    "two keys": _get(401, "unauthorized", b"Authorization: Bearer xyzzy"),
    "two media types": _post(415, "unsupported_media_type", b"Content-Type: text/xyzzy", b"Content-Length: 17"),
    "two Idempotency-Keys": _post(
        400, "bad_request", b"Idempotency-Key: xyzzy", b"Idempotency-Key: b", b"Content-Length: 17"
    ),
    "an Idempotency-Key that is not ASCII": _post(400, "bad_request", b"Idempotency-Key: xyzzy\xff", b"Content-Length: 17"),
    "a websocket": _get(
        403, SERVERS_OWN, b"Upgrade: websocket", b"Connection: upgrade", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + b"A" * 22 + b"=="
    ),
}  # fmt: skip

LINES = {
    "HTTP/0.9": _line(b"GET /api/v1/classes", 400, SERVERS_OWN),
    "HTTP/2.0": _line(b"GET /api/v1/classes HTTP/2.0", 400, SERVERS_OWN),
    "HTTP/9.9": _line(b"GET /api/v1/classes HTTP/9.9", 400, SERVERS_OWN),
    "XYZZY/1.1": _line(b"GET /api/v1/classes XYZZY/1.1", 400, SERVERS_OWN),
    "HTTP/1.0 without a host": _line(b"GET /api/v1/classes HTTP/1.0", 400, "bad_request", host=None),
    "HTTP/1.0 to nowhere": _line(b"GET /xyzzy HTTP/1.0", 404, "not_found"),
    "no line": _line(b"", 400, SERVERS_OWN),
    "TLS": _line(b"\x16\x03\x01\x00\xa5\x01xyzzy", 400, SERVERS_OWN),
    "a method that is none": _line(b"XY(ZZY /api/v1/jobs HTTP/1.1", 400, SERVERS_OWN),
    "a method of the caller's own": _line(b"XYZZY /api/v1/jobs HTTP/1.1", 405, "method_not_allowed"),
    "TRACE": _line(b"TRACE /api/v1/jobs HTTP/1.1", 405, "method_not_allowed"),
    "CONNECT": _line(b"CONNECT 127.0.0.1:5432 HTTP/1.1", 405, "method_not_allowed"),
    "the whole server": _line(b"OPTIONS * HTTP/1.1", 404, "not_found"),
    "a target without its slash": _get(400, SERVERS_OWN, path=b"api/v1/classes"),
    "a target with a space": _get(400, SERVERS_OWN, path=b"/api/v1/classes/xy zzy"),
    "a target of bytes": _get(400, SERVERS_OWN, path=b"/api/v1/classes/xyzzy\xff"),
    "a query of bytes": _get(400, SERVERS_OWN, path=b"/api/v1/jobs?type=xyzzy\xff"),
    "a query of bytes in percents": _get(400, "bad_request", path=b"/api/v1/jobs?type=xyzzy%ff"),
    "an absolute target of somebody else": _get(404, "not_found", path=b"http://xyzzy.example/xyzzy"),
    "an absolute target of another scheme": _get(404, "not_found", path=b"gopher://127.0.0.1/xyzzy"),
    "a way up": _get(404, "not_found", path=b"/api/v1/types/../classes"),
    "a way up in percents": _get(404, "not_found", path=b"/api/v1/types/%2e%2e/classes"),
    "two slashes": _get(404, "not_found", path=b"//api/v1/classes"),
    "two slashes and a host": _get(404, "not_found", path=b"//xyzzy.example/api/docs"),
    "a back slash": _get(404, "not_found", path=b"/api\\v1\\classes"),
    "a parameter of the path": _get(404, "not_found", path=b"/api/v1/classes;xyzzy=1"),
    "U+0000 in the path": _get(404, "not_found", path=b"/api/v1/classes/light%00xyzzy"),
    "bytes in the path": _get(404, "not_found", path=b"/api/v1/classes/%ff%fe"),
    "a percent sign that is none": _get(404, "not_found", path=b"/api/v1/classes/%zz"),
    "a new line and a header": _get(404, "not_found", path=b"/api/v1/types/%0d%0aSet-Cookie:%20xyzzy"),
    "a path of 60,000 bytes": _get(404, "not_found", path=b"/api/v1/types/" + WORD * 12_000),
    "a path of 70,000 bytes": _get(414, SERVERS_OWN, path=b"/api/v1/types/" + WORD * 14_000),
    "a path of 1,000,000 bytes": _get(431, SERVERS_OWN, path=b"/api/v1/types/" + WORD * 200_000),
    "a byte 0 in the path": _get(400, SERVERS_OWN, path=b"/api/v1/types/xyzzy\0"),
    "a file above the static ones": _get(404, FILES_OWN, path=b"/static/../demo-key"),
    "the same in percents": _get(404, FILES_OWN, path=b"/static/%2e%2e/demo-key"),
    "the same with its slash in percents": _get(404, FILES_OWN, path=b"/static/..%2fdemo-key"),
    "a file from the root": _get(404, FILES_OWN, path=b"/static//etc/passwd"),
    "a form for nowhere": _line(b"POST /api/v1/xyzzy HTTP/1.1", 404, "not_found"),
    "a deletion of no job": _line(b"DELETE /api/v1/jobs/xyzzy HTTP/1.1", 404, "not_found"),
    "a form for the start page": _line(b"POST / HTTP/1.1", 405, "method_not_allowed"),
    "a job's deletion with another's words": _line(
        b"DELETE " + A_JOB + b" HTTP/1.1", 404, "not_found", headers=(b"Content-Length: 17",), body=BODY
    ),
}  # fmt: skip
ALL = {
    **{f"frame: {name}": sent for name, sent in FRAMES.items()},
    **{f"head: {name}": sent for name, sent in HEADS.items()},
    **{f"line: {name}": sent for name, sent in LINES.items()},
}


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.mark.parametrize("name", ALL)
def test_it_is_refused_and_nothing_of_it_is_kept(stack: Stack, name: str) -> None:
    sent, log = ALL[name], stack.data_dir / "logs" / "web.log"
    rows, logged = _rows(stack), log.stat().st_size
    answer = _ask(stack.port, sent.raw(stack.key))
    assert answer.status == sent.status, answer
    if sent.code in {SERVERS_OWN, FILES_OWN}:
        assert answer.body.decode() == sent.code
    else:
        must_be_published(_method(sent), _path(sent), answer.status, answer.headers, answer.body)
        assert json.loads(answer.body)["code"] == sent.code
        _must_be_logged_without_its_words(log, logged, answer.headers["x-request-id"], stack.key)
    assert _rows(stack) == rows


def _method(sent: Sent) -> str:
    return sent.line.split(b" ")[0].decode("latin-1")


def _path(sent: Sent) -> str:
    """Of a target that is no path: one of nowhere, but for a CONNECT, whose target the server leaves out."""
    target = sent.line.split(b" ")[1].partition(b"?")[0].decode("latin-1")
    return target if target.startswith("/") else "/" if _method(sent) == "CONNECT" else "/nowhere"


def _must_be_logged_without_its_words(log: Path, after: int, request_id: str, key: str) -> None:
    def told() -> str:
        return log.read_bytes()[after:].decode()

    eventually(lambda: request_id in told())
    assert WORD.decode() not in told().lower()
    assert key not in told()


def _ask(port: int, raw: bytes) -> Answer:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        _send(connection, raw)
        told = b""
        while not (answer := _read(told)) and (more := connection.recv(65_536)):
            told += more
    assert answer is not None, told
    return answer


def _send(connection: socket.socket, raw: bytes) -> None:
    """The server may have answered and gone before it took all of it."""
    try:
        connection.sendall(raw)
    except (BrokenPipeError, ConnectionResetError):
        pass


def _read(told: bytes) -> Answer | None:
    head, ended, body = told.partition(b"\r\n\r\n")
    if not ended:
        return None
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    if len(body) < int(headers.get("content-length", 0)):
        return None
    return Answer(int(status.split(" ")[1]), headers, body)


def _rows(stack: Stack) -> dict[str, int]:
    """How many rows there are of what a caller could make."""
    tables = ("jobs_job", "jobs_attempt", "jobs_idempotencykey", "jobs_apiclient", "jobs_apikey", "django_session")
    counts = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in tables)
    with psycopg.connect(stack.database_url) as connection:
        return dict(connection.execute(counts).fetchall())


def test_what_would_be_cut_off_by_a_length_beside_chunks_is_no_second_request(stack: Stack) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY + smuggled), BODY + smuggled)
    answer = _ask(stack.port, _post(400, "", b"Content-Length: 4", CHUNKED, body=body).raw(stack.key))
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "bad_request"), "one body, which is no JSON"
    assert b"HTTP/1.1" not in answer.body


HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # the preface and empty settings


@pytest.mark.parametrize(
    ("begins", "told"), [(HTTP_2, b""), (HTTP_2[:20] + b"xyzzy", b"HTTP/1.1 400 ")], ids=["whole", "broken"]
)
def test_http_2_without_having_been_asked_for_is_closed_and_nothing_is_logged(
    stack: Stack, begins: bytes, told: bytes
) -> None:
    log = stack.data_dir / "logs" / "web.log"
    logged = log.stat().st_size
    with socket.create_connection(("127.0.0.1", stack.port), timeout=20) as connection:
        _send(connection, begins)
        assert _all_of(connection)[:13] == told
    assert _ask(stack.port, _get(200, "").raw(stack.key)).status == 200
    assert b"xyzzy" not in log.read_bytes()[logged:]


def test_requests_that_are_sent_at_once_are_answered_in_their_order(stack: Stack) -> None:
    """The second is refused, and the third comes behind the end: who said that it would close is asked nothing more."""
    head = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + stack.key.encode() + b"\r\n"
    first, second, third = head % CLASSES, head % A_JOB + b"Connection: close\r\n", head % b"/healthz"
    with socket.create_connection(("127.0.0.1", stack.port), timeout=20) as connection:
        _send(connection, b"\r\n".join([first, second, third, b""]))
        told = _all_of(connection)
    assert [part[:3] for part in told.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404"]


def _all_of(connection: socket.socket) -> bytes:
    """Until it is closed, in order or not."""
    told = b""
    try:
        while more := connection.recv(65_536):
            told += more
    except ConnectionResetError:
        pass
    return told


def test_there_are_many_of_them() -> None:
    assert len(ALL) >= 80
