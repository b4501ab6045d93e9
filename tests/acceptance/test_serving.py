"""One port for all: callers that send slowly hold up nobody, and whoever is refused can read why."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from stack.local import Stack
from tests.acceptance.conftest import UNSWEPT
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.waiting import eventually

SLOW_CALLERS = 40
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds; this machine may be busy


@pytest.fixture(scope="module")
def stack(start_stack: Callable[..., Stack]) -> Stack:
    return start_stack(without=(*UNSWEPT, "worker-heavy"))


def head_of(stack: Stack, *headers: str) -> bytes:
    always = [f"Host: 127.0.0.1:{stack.port}", f"Authorization: Bearer {stack.key}", "Content-Type: application/json"]
    return "\r\n".join(["POST /api/v1/jobs HTTP/1.1", *always, *headers, "", ""]).encode()


@contextmanager
def connected(stack: Stack) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", stack.port), timeout=20) as connection:
        yield connection


def answer_on(connection: socket.socket) -> tuple[int, dict[str, object]]:
    """The status and the JSON of the answer that comes."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += _more(connection)
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += _more(connection)
    return int(head.split(b" ")[1]), json.loads(body)


def _more(connection: socket.socket) -> bytes:
    more = connection.recv(65_536)
    assert more, "the connection ended before the answer was whole"
    return more


def test_forty_callers_that_send_slowly_hold_up_nobody_and_are_served_in_the_end(
    stack: Stack, api: Api, diary: Diary
) -> None:
    bodies = [
        json.dumps({"type": "tests.note", "params": diary.params(f"slow{i}")}).encode() for i in range(SLOW_CALLERS)
    ]
    with ExitStack() as open_:
        slow = [open_.enter_context(connected(stack)) for _ in bodies]
        for connection, body in zip(slow, bodies, strict=True):
            connection.sendall(head_of(stack, f"Content-Length: {len(body)}") + body[:-1])
        for number in range(5):
            _in_time(lambda: api.http.get(f"{stack.url}/healthz"), 200)
            _in_time(lambda number=number: api.post("tests.note", diary.params(f"quick{number}")), 202)  # type: ignore[misc]
        for connection, body in zip(slow, bodies, strict=True):
            connection.sendall(body[-1:])
        assert {answer_on(connection)[0] for connection in slow} == {202}
    eventually(lambda: len(diary.ended()) == SLOW_CALLERS + 5, 30)


def _in_time(ask: Callable[[], object], status: int) -> None:
    began = time.monotonic()
    response = ask()
    assert response.status_code == status  # type: ignore[attr-defined]
    assert time.monotonic() - began < ANSWERED_SECONDS


def test_a_body_in_chunks_is_taken(stack: Stack, api: Api, diary: Diary) -> None:
    body = json.dumps({"type": "tests.note", "params": diary.params("chunks")}).encode()
    pieces = (body[:10], body[10:30], body[30:])
    with connected(stack) as connection:
        connection.sendall(head_of(stack, "Transfer-Encoding: chunked"))
        for piece in pieces:
            connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        status, job = answer_on(connection)
    assert status == 202
    assert api.ended(str(job["id"]))["state"] == "succeeded"


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_body_that_is_too_large_is_told_so_by_an_answer_that_can_be_read(stack: Stack, says_its_length: bool) -> None:
    """Sent whole, as ordinary clients do before they read."""
    body = b'{"type": "' + b"x" * 4_000_000 + b'"}'
    with connected(stack) as connection:
        if says_its_length:
            connection.sendall(head_of(stack, f"Content-Length: {len(body)}") + body)
        else:
            connection.sendall(head_of(stack, "Transfer-Encoding: chunked"))
            connection.sendall(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        status, problem = answer_on(connection)
    assert (status, problem["code"]) == (413, "too_large")
    assert str(len(body)) in str(problem["detail"])


def test_a_caller_that_goes_before_its_request_is_whole_makes_no_job(stack: Stack, api: Api, diary: Diary) -> None:
    body = json.dumps({"type": "tests.note", "params": diary.params("gone")}).encode()
    with connected(stack) as connection:
        connection.sendall(head_of(stack, f"Content-Length: {len(body)}") + body[:-1])
    after = api.submit("tests.note", diary.params("after"))
    assert api.ended(after)["state"] == "succeeded"
    assert diary.began() == ["after"]
