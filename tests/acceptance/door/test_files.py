"""Files over the real server: callers that send slowly, lie or leave hold up nobody, leave nothing, and can read their answer."""

import hashlib
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from stack.local import Stack
from tests.acceptance.raw_http import RawRequest
from tests.api_client import Api
from tests.history.recorder import History
from tests.processes import with_descendants
from tests.waiting import eventually

SLOW_CALLERS = 40
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds; this machine may be busy
UPLOADS = "/api/v1/uploads"
MIB = 2**20


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@pytest.fixture
def kept(stack: Stack) -> "Kept":
    return Kept(stack)


class Kept:
    """What the stack keeps: rows, files, and bytes on their way."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = self._rows()

    def new(self) -> int:
        return self._rows() - self._before

    def _rows(self) -> int:
        with psycopg.connect(self._stack.database_url) as database:
            row = database.execute("SELECT count(*) FROM jobs_upload").fetchone()
        assert row is not None
        return int(row[0])

    def on_their_way(self) -> list[str]:
        """Files in the spool, which have no names: by the descriptors of the web processes."""
        spool = self._stack.data_dir / "spool"
        named = [str(file) for file in spool.glob("*")]
        return named + [file for pid in _webs(self._stack) for file in _descriptors(pid) if file.startswith(str(spool))]


def _webs(stack: Stack) -> list[int]:
    return with_descendants(stack.pid("web"))


def _descriptors(pid: int) -> list[str]:
    try:
        return [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def _in_time(api: Api, url: str) -> None:
    began = time.monotonic()
    assert api.http.get(url).status_code == 200
    assert time.monotonic() - began < ANSWERED_SECONDS


def test_forty_slow_uploads_hold_up_nobody_and_are_kept_in_the_end(stack: Stack, api: Api, kept: Kept) -> None:
    content = b"x" * 100_000
    with ExitStack() as connected:
        callers = [connected.enter_context(RawRequest(stack)) for _ in range(SLOW_CALLERS)]
        for caller in callers:
            caller.head("POST", UPLOADS, f"Content-Length: {len(content)}")
            caller.send(content[:-1])
        eventually(lambda: len(kept.on_their_way()) == SLOW_CALLERS)
        for _ in range(5):
            _in_time(api, f"{stack.url}/healthz")
            _in_time(api, "/classes")
        for caller in callers:
            caller.send(content[-1:])
        answers = [caller.answer() for caller in callers]
    assert {status for status, _, _ in answers} == {201}
    assert {told["sha256"] for _, _, told in answers} == {hashlib.sha256(content).hexdigest()}
    assert kept.new() == SLOW_CALLERS
    assert kept.on_their_way() == []


def test_twenty_uploads_of_one_client_at_once_are_all_kept(stack: Stack, api: Api, kept: Kept) -> None:
    content = b"x" * 900_000
    with ThreadPoolExecutor(20) as callers:
        answers = list(callers.map(lambda _: api.http.post("/uploads", content=content), range(20)))
    assert [answer.status_code for answer in answers] == [201] * 20
    assert kept.new() == 20


def test_a_file_larger_than_any_body_is_taken_in_chunks_and_in_little_memory(
    stack: Stack, api: Api, kept: Kept
) -> None:
    """48 MiB, from a caller that does not know how much there will be; the processes together grow by less than half of it."""
    piece, pieces = b"0123456789abcdef" * 4096, 768
    before = _memory(stack)
    response = api.http.post(f"{stack.url}{UPLOADS}", content=(piece for _ in range(pieces)), timeout=60)
    assert response.status_code == 201, response.text
    assert (response.json()["bytes"], kept.new()) == (48 * MIB, 1)
    assert response.json()["sha256"] == hashlib.sha256(piece * pieces).hexdigest()
    assert _memory(stack) - before < 24 * MIB


def _memory(stack: Stack) -> int:
    """Of all web processes, in bytes."""
    pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in _webs(stack))
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_file_that_is_too_large_is_told_so_by_an_answer_that_can_be_read(
    stack: Stack, kept: Kept, says_its_length: bool
) -> None:
    """Sent whole, as ordinary clients do before they read: 2 MiB more than are taken."""
    piece, pieces = b"x" * MIB, 66
    with RawRequest(stack) as caller:
        if says_its_length:
            caller.head("POST", UPLOADS, f"Content-Length: {len(piece) * pieces}")
        else:
            caller.head("POST", UPLOADS, "Transfer-Encoding: chunked")
        for _ in range(pieces):
            try:
                caller.send(piece if says_its_length else f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            except OSError:  # it was told, and sends on
                break
        status, _, problem = caller.answer()
    assert (status, problem["code"], problem["limit_bytes"]) == (413, "too_large", 64 * MIB)
    assert kept.new() == 0
    eventually(lambda: kept.on_their_way() == [])


def test_a_stranger_is_refused_before_it_has_sent_anything(stack: Stack, kept: Kept) -> None:
    with RawRequest(stack) as caller:
        caller.head("POST", UPLOADS, f"Content-Length: {10 * MIB}", "Expect: 100-continue", key="nobody")
        status, headers, problem = caller.answer()
    assert (status, problem["code"], headers["www-authenticate"]) == (401, "unauthorized", "Bearer")
    assert kept.on_their_way() == []


def test_who_waits_for_leave_to_send_gets_it(stack: Stack, kept: Kept) -> None:
    with RawRequest(stack) as caller:
        caller.head("POST", UPLOADS, "Content-Length: 4", "Expect: 100-continue")
        assert caller.connection.recv(65_536).startswith(b"HTTP/1.1 100 ")
        caller.send(b"file")
        assert caller.answer()[0] == 201
    assert kept.new() == 1


def test_a_caller_that_goes_in_the_middle_leaves_nothing(stack: Stack, kept: Kept) -> None:
    for head in ("Content-Length: 100000", "Transfer-Encoding: chunked"):
        with RawRequest(stack) as caller:
            caller.head("POST", UPLOADS, head)
            caller.send(b"c350\r\n" + b"x" * 50_000)
            eventually(lambda: len(kept.on_their_way()) == 1)
        eventually(lambda: kept.on_their_way() == [])
    assert kept.new() == 0


def test_a_caller_that_sends_less_than_it_said_is_told_and_leaves_nothing(stack: Stack, kept: Kept) -> None:
    with RawRequest(stack) as caller:
        caller.head("POST", UPLOADS, "Content-Length: 100")
        caller.send(b"x" * 50)
        caller.connection.shutdown(socket.SHUT_WR)
        status, _, problem = caller.answer()
    assert (status, problem["code"]) == (400, "bad_request")
    assert (kept.new(), kept.on_their_way()) == (0, [])


def test_of_a_caller_that_sends_more_than_it_said_only_that_is_kept(stack: Stack, kept: Kept) -> None:
    """The rest is, to any server, the beginning of another request. A Content-Digest would have told."""
    with RawRequest(stack) as caller:
        caller.head("POST", UPLOADS, "Content-Length: 4")
        caller.send(b"fileAND MORE OF IT\r\n\r\n")
        status, _, told = caller.answer()
    assert (status, told["bytes"]) == (201, 4)
    assert kept.new() == 1


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 4", "Content-Length: 5"),
        ("Content-Length: -4",),
        ("Content-Length: 4x",),
        ("Transfer-Encoding: chunked, gzip",),
        ("Content-Length: 99999999999999999999999",),
    ],
)
def test_a_length_that_is_none_is_refused_and_nothing_is_kept(
    stack: Stack, kept: Kept, headers: tuple[str, ...]
) -> None:
    with RawRequest(stack) as caller:
        caller.head("POST", UPLOADS, *headers)
        caller.send(b"file")
        assert b" 4" in caller.connection.recv(64)[:13]
    assert kept.new() == 0


def test_a_caller_that_takes_a_file_slowly_holds_no_thread(stack: Stack, api: Api, history: History) -> None:
    """Sixteen callers, as many as all processes have threads, take a file of 20 MiB and stop reading."""
    job = api.ended(api.submit("tests.leaves", {"bytes": 20 * MIB}))
    (artifact,) = job["artifacts"]
    assert artifact["bytes"] == 20 * MIB
    before = _memory(stack)
    with ExitStack() as connected:
        for _ in range(16):
            caller = connected.enter_context(RawRequest(stack))
            caller.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            caller.head("GET", artifact["link"])
            assert caller.connection.recv(1024).startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            _in_time(api, "/classes")
        assert _memory(stack) - before < 160 * MIB  # half of what would be held if it were read ahead of them
        whole = api.http.get(f"{stack.url}{artifact['link']}")
    assert hashlib.sha256(whole.content).hexdigest() == artifact["sha256"]
    part = api.http.get(f"{stack.url}{artifact['link']}", headers={"Range": "bytes=-3"})
    assert (part.status_code, part.content) == (206, whole.content[-3:])
    head = api.http.head(f"{stack.url}{artifact['link']}")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(20 * MIB), b"")
