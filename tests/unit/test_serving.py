"""Requests on their way to Django: whole before they take a thread, bounded, and answered also when they cannot be taken."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest

from jobs import telemetry
from jobs.api.bodies import limit_bytes
from project import asgi, serving
from project.places import Share
from project.serving import Limits, ThreadBridge
from project.streams import Pace
from project.wsgi_call import Answer

Message = dict[str, Any]
ECHO_HEADERS = [("Content-Type", "text/plain")]


def scope(method: str = "POST", path: str = "/a", headers: dict[str, str] | None = None, query: str = "") -> Message:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": raw,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("10.0.0.9", 4711),
    }


def part(body: bytes, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


class Wire:
    """What the server receives, in order, and what it was told to send. After the last message a caller is silent."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.sent: list[Message] = []
        self.read = 0

    async def receive(self) -> Message:
        if not self._messages:
            await asyncio.Event().wait()
        self.read += 1
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def echo(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", ECHO_HEADERS)
    return [environ["wsgi.input"].read()]


def own_answer(status: int, request_id: str) -> Answer:
    return Answer(status, [(b"x-request-id", request_id.encode())], b"ours")


def bridge(application: Any = echo, *, body_bytes: int = 1000, **limits: Any) -> ThreadBridge:
    return ThreadBridge(
        application, own_answer, Limits(lambda path: body_bytes, lambda path: path != "/form", **limits)
    )


def ask(asked: ThreadBridge, given: Message, *messages: Message) -> Wire:
    wire = Wire(*messages)
    asyncio.run(asyncio.wait_for(asked(given, wire.receive, wire.send), 20))
    return wire


def environ_for(given: Message, *messages: Message) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def keep(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ)
        return echo(environ, start_response)

    ask(bridge(keep), given, *messages)
    return seen[0]


def test_a_body_in_pieces_arrives_whole_and_with_its_length() -> None:
    wire = ask(bridge(), scope(), part(b"a" * 10, more=True), part(b"", more=True), part(b"b"))
    assert (wire.status, wire.body) == (200, b"a" * 10 + b"b")
    assert wire.headers == {"content-type": "text/plain", "content-length": "11"}


def test_a_request_is_as_wsgi_has_it() -> None:
    given = scope(
        "PUT", "/jöbs/ä", {"X-Some": "ä", "Content-Type": "application/json", "Accept": "a"}, query="q=%C3%A4"
    )
    environ = environ_for(given, part(b"{}"))
    assert (environ["REQUEST_METHOD"], environ["QUERY_STRING"]) == ("PUT", "q=%C3%A4")
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/jöbs/ä"
    assert (environ["CONTENT_TYPE"], environ["CONTENT_LENGTH"]) == ("application/json", "2")
    assert (environ["HTTP_X_SOME"], environ["HTTP_ACCEPT"]) == ("ä", "a")
    assert (environ["REMOTE_ADDR"], environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("10.0.0.9", "127.0.0.1", "8000")


def test_a_header_that_comes_twice_is_one_list() -> None:
    given = scope()
    given["headers"] = [(b"accept", b"a"), (b"accept", b"b")]
    assert environ_for(given, part(b""))["HTTP_ACCEPT"] == "a,b"


def test_a_header_with_an_underscore_is_not_taken_for_another() -> None:
    environ = environ_for(scope(headers={"X_Request_Id": "forged"}), part(b""))
    assert "HTTP_X_REQUEST_ID" not in environ


def test_cookies_that_come_one_by_one_are_one_line() -> None:
    given = scope()
    given["headers"] = [(b"cookie", b"a=1"), (b"cookie", b"b=2")]
    assert environ_for(given, part(b""))["HTTP_COOKIE"] == "a=1; b=2"


def test_where_django_would_take_a_large_body_for_an_empty_one_the_refusal_is_ours() -> None:
    wire = ask(bridge(_never, body_bytes=25), scope(path="/form"), part(b"x" * 26))
    assert (wire.status, wire.body) == (413, b"ours")


def test_chunks_become_a_length() -> None:
    environ = environ_for(scope(headers={"Transfer-Encoding": "chunked"}), part(b"abc", more=True), part(b""))
    assert environ["CONTENT_LENGTH"] == "3"
    assert "HTTP_TRANSFER_ENCODING" not in environ


@pytest.mark.parametrize(("declared", "length"), [("400", "400"), (None, "60")])
def test_of_a_body_that_is_too_large_only_the_length_is_passed_on(declared: str | None, length: str) -> None:
    """What it has sent is read, so that it can read the answer; 60 bytes came."""
    seen: list[tuple[str, bytes]] = []

    def keep(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append((environ["CONTENT_LENGTH"], environ["wsgi.input"].read()))
        return echo(environ, start_response)

    headers = {} if declared is None else {"Content-Length": declared}
    ask(bridge(keep, body_bytes=25), scope(headers=headers), *[part(b"x" * 20, more=True)] * 2, part(b"x" * 20))
    assert seen == [(length, b"")]


def test_a_body_as_large_as_it_may_be_is_taken() -> None:
    assert ask(bridge(body_bytes=25), scope(), part(b"x" * 25)).body == b"x" * 25


def test_who_sends_for_ever_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "DRAINED_BYTES", 100)
    wire = Wire(*[part(b"x" * 30, more=True)] * 50)
    asyncio.run(bridge(body_bytes=25)(scope(), wire.receive, wire.send))
    assert wire.status == 200
    assert wire.read < 10


def test_a_body_that_does_not_come_in_time_is_told_so_and_takes_no_thread() -> None:
    wire = ask(bridge(_never, body_seconds=0.05), scope(), part(b"a", more=True))
    assert (wire.status, wire.body) == (408, b"ours")


def test_of_a_body_that_breaks_off_nothing_is_passed_on_and_who_still_listens_is_told() -> None:
    """To the server it is one whether the caller went, closed its half, or sent chunks that are none."""
    wire = ask(bridge(_never), scope(), part(b"a", more=True), GONE)
    assert (wire.status, wire.body) == (400, b"ours")


@pytest.mark.parametrize(
    "codings", [["gzip, chunked"], ["gzip", "chunked"], ["chunked", "chunked"], ["identity"], [""]]
)
def test_a_body_in_a_transfer_coding_of_its_own_is_refused_unread(codings: list[str]) -> None:
    given = scope()
    given["headers"] = [(b"transfer-encoding", coding.encode()) for coding in codings]
    wire = ask(bridge(_never), given, part(b"a"))
    assert (wire.status, wire.body, wire.read) == (400, b"ours", 0)


def test_bodies_hold_no_more_than_all_of_them_may() -> None:
    """Two of 40 bytes fit in 100, a third does not; when they are done there is room again."""
    asked = bridge(held_bytes=100)

    async def three() -> list[Wire]:
        slow = [Wire(part(b"x" * 40, more=True)), Wire(part(b"x" * 40, more=True))]
        tasks = [asyncio.ensure_future(asked(scope(), one.receive, one.send)) for one in slow]
        while asked._held_bytes < 80:
            await asyncio.sleep(0.005)
        third = Wire(part(b"x" * 40))
        await asked(scope(), third.receive, third.send)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        fourth = Wire(part(b"x" * 100))
        await asked(scope(), fourth.receive, fourth.send)
        return [third, fourth]

    third, fourth = asyncio.run(asyncio.wait_for(three(), 20))
    assert (third.status, third.body) == (503, b"ours")
    assert fourth.status == 200


def test_an_answer_that_says_not_modified_has_no_length() -> None:
    def unmodified(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("304 Not Modified", [("ETag", '"a"'), ("Content-Length", "0")])
        return [b""]

    assert ask(bridge(unmodified), scope("GET"), part(b"")).headers == {"etag": '"a"'}


def _never(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    raise AssertionError("it was passed on")


def test_an_answer_in_pieces_is_sent_piece_by_piece_and_closed() -> None:
    closed = threading.Event()

    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"a", b"b", b"c"])

        def close(self) -> None:
            closed.set()

    def stream(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", ECHO_HEADERS)
        return Pieces()

    wire = ask(bridge(stream), scope("GET"), part(b""))
    assert [message.get("body") for message in wire.sent] == [None, b"a", b"b", b"c", b""]
    assert "content-length" not in wire.headers
    assert closed.is_set()


def test_an_answer_to_head_has_a_length_and_no_body() -> None:
    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", ECHO_HEADERS)
        return [b"four"]

    wire = ask(bridge(answer), scope("HEAD"), part(b""))
    assert (wire.headers["content-length"], wire.body) == ("4", b"")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_healthz_needs_no_thread_and_no_body(method: str) -> None:
    """While every thread is held, and before the request is whole."""
    with _held(threads=1, waiting=0) as (asked, hold):

        async def both() -> Wire:
            held = asyncio.ensure_future(hold())
            while not asked._free.locked():
                await asyncio.sleep(0.005)
            wire = Wire()
            await asked(scope(method, "/healthz", {"X-Request-Id": "mine"}), wire.receive, wire.send)
            await held
            return wire

        wire = asyncio.run(asyncio.wait_for(both(), 20))
    assert (wire.status, wire.headers["x-request-id"]) == (200, "mine")
    assert wire.body == (b"ours" if method == "GET" else b"")


def test_more_than_may_wait_are_refused_at_once() -> None:
    """One thread, one waiting: the third is told to come back, and the first two are answered."""
    with _held(threads=1, waiting=1) as (asked, hold):

        async def three() -> tuple[Wire, Wire]:
            first = asyncio.ensure_future(hold())
            while not asked._free.locked():
                await asyncio.sleep(0.005)
            waiting, third = Wire(part(b"w")), Wire(part(b"t"))
            second = asyncio.ensure_future(asked(scope(), waiting.receive, waiting.send))
            while asked._waiting < 1:
                await asyncio.sleep(0.005)
            await asked(scope(), third.receive, third.send)
            await asyncio.gather(first, second)
            return waiting, third

        waiting, third = asyncio.run(asyncio.wait_for(three(), 20))
    assert (third.status, third.body) == (503, b"ours")
    assert (waiting.status, waiting.body) == (200, b"w")


def test_nobody_waits_long_for_a_thread() -> None:
    with _held(threads=1, waiting=5, wait_seconds=0.05) as (asked, hold):

        async def both() -> Wire:
            first = asyncio.ensure_future(hold())
            while not asked._free.locked():
                await asyncio.sleep(0.005)
            waiting = Wire(part(b"w"))
            await asked(scope(), waiting.receive, waiting.send)
            await first
            return waiting

        waiting = asyncio.run(asyncio.wait_for(both(), 20))
    assert (waiting.status, waiting.body) == (503, b"ours")


class _held:
    """A bridge, and a coroutine that holds one of its threads until the next turns of the loop are over."""

    def __init__(self, **limits: Any) -> None:
        self._begun, self._go = threading.Event(), threading.Event()
        self._bridge = bridge(self._answer, **limits)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/held":
            self._begun.set()
            self._go.wait(10)
        return echo(environ, start_response)

    async def _hold(self) -> None:
        wire = Wire(part(b""))
        held = asyncio.ensure_future(self._bridge(scope(path="/held"), wire.receive, wire.send))
        while not self._begun.is_set():
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.2, self._go.set)
        await held

    def __enter__(self) -> tuple[ThreadBridge, Callable[[], Awaitable[None]]]:
        return self._bridge, self._hold

    def __exit__(self, *error: object) -> None:
        self._go.set()


def test_at_shutdown_what_is_being_answered_is_answered() -> None:
    """The server is told that the application has ended only after that."""
    begun, answered = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        begun.set()
        time.sleep(0.2)  # the work itself
        answered.set()
        return echo(environ, start_response)

    async def stopped_meanwhile() -> Wire:
        asking = asyncio.ensure_future(asked(scope(), Wire(part(b"")).receive, Wire().send))
        while not begun.is_set():
            await asyncio.sleep(0.005)
        server = Wire({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        await asked({"type": "lifespan"}, server.receive, server.send)
        assert answered.is_set()
        await asking
        return server

    asked = bridge(slow)
    server = asyncio.run(asyncio.wait_for(stopped_meanwhile(), 20))
    assert [message["type"] for message in server.sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(RuntimeError):
        ask(asked, scope(), part(b""))


def test_a_websocket_is_closed() -> None:
    wire = ask(bridge(_never), {"type": "websocket"})
    assert wire.sent == [{"type": "websocket.close"}]


# ── The bridge as this project sets it up ────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("largest", "kept_bytes"), [(2000, 2000), (None, sys.maxsize)])
def test_no_more_of_a_body_is_kept_than_its_address_could_take(settings: Any, largest: Any, kept_bytes: int) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = largest
    assert asgi._body_bytes("/admin/login/") == kept_bytes
    assert asgi._body_bytes("/nowhere") == asgi.OTHER_BYTES
    assert asgi._body_bytes("/api/v1/jobs") == limit_bytes()


def test_a_form_that_is_too_large_is_refused_here_and_a_job_by_its_view(settings: Any) -> None:
    """Django would take a form without its body for an empty one; a view says which length it takes."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 25
    counted = telemetry.HTTP_REFUSED.labels(413)._value
    before = counted.get()
    wire = ask(asgi.application, scope(path="/admin/login/"), part(b"x" * 26))
    assert counted.get() == before + 1
    assert (wire.status, wire.headers["content-type"]) == (413, "application/problem+json")
    assert json.loads(wire.body)["detail"] == "The body is larger than this address takes."
    assert asgi.application._limits.refuses_by_length("/api/v1/jobs")


# ── Files, in and out ────────────────────────────────────────────────────────────────────────────────


class Kept:
    """A sink and a source in memory, which tell what is done to them."""

    def __init__(self, most_bytes: int = 1000, content: bytes = b"", full: bool = False) -> None:
        self.most_bytes, self.content, self.full = most_bytes, content, full
        self.threads: set[str] = set()
        self.pieces: list[int] = []
        self.closed = threading.Event()

    def write(self, some: bytes) -> int:
        self.threads.add(threading.current_thread().name)
        if self.full:
            raise OSError(28, "No space left on device")
        self.pieces.append(len(some))
        self.content += some
        return len(some)

    def read(self, most_bytes: int) -> bytes:
        self.threads.add(threading.current_thread().name)
        piece, self.content = self.content[:7], self.content[7:]
        return piece

    def close(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.closed.set()


class Told(list[bytes]):
    """A WSGI response that bears a sink or a source."""

    sink: Kept
    source: Kept


def streaming(kept: Kept, allowed: bool = True, **limits: Any) -> tuple[ThreadBridge, list[dict[str, Any]]]:
    """A bridge in front of what takes bodies into `kept`, unless they are not `allowed`; and the requests that it saw."""
    seen: list[dict[str, Any]] = []

    def take(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append({**environ, "read": environ["wsgi.input"].read()})
        start_response("201 Created" if environ["arrived"] else "100 Continue" if allowed else "401 Unauthorized", [])
        answer = Told([b"taken"])
        if environ["arrived"] is None and allowed:
            answer.sink = kept
        return answer

    return bridge(take, streams=lambda method, path: path == "/uploads", **limits), seen


UPLOAD = scope(path="/uploads")


def test_a_stream_is_asked_for_once_without_its_body_and_once_with_it_in_the_sink() -> None:
    kept = Kept()
    asked, seen = streaming(kept)
    wire = ask(asked, UPLOAD, part(b"abc", more=True), part(b"", more=True), part(b"de"))
    assert (wire.status, wire.body, kept.content) == (201, b"taken", b"abcde")
    assert [(one["arrived"], one["CONTENT_LENGTH"], one["read"]) for one in seen] == [
        (None, "0", b""),
        (kept, "5", b""),
    ]
    assert kept.closed.is_set()
    assert all(name.startswith("files") for name in kept.threads)
    assert asked._streamed.taken == 0


def test_what_drips_is_gathered_before_it_is_written() -> None:
    kept = Kept(most_bytes=2_000_000)
    ask(streaming(kept)[0], UPLOAD, *[part(b"x" * 1000, more=True)] * 600, part(b""))
    assert len(kept.content) == 600_000
    assert len(kept.pieces) == 3


def test_who_is_refused_has_sent_nothing_into_a_file() -> None:
    kept = Kept()
    asked, seen = streaming(kept, allowed=False)
    wire = Wire(part(b"a" * 10, more=True), part(b"b" * 10))
    asyncio.run(asked(UPLOAD, wire.receive, wire.send))
    assert (wire.status, wire.read, len(seen)) == (401, 2, 1)  # read, so that the answer can be, and thrown away
    assert kept.pieces == []


def test_who_waits_for_leave_to_send_is_refused_without_being_asked_to() -> None:
    wire = Wire(part(b"a"))
    asked, _ = streaming(Kept(), allowed=False)
    asyncio.run(asked(scope(path="/uploads", headers={"Expect": "100-continue"}), wire.receive, wire.send))
    assert (wire.status, wire.read) == (401, 0)


@pytest.mark.parametrize(("declared", "length"), [("400", "400"), (None, "60")])
def test_a_stream_that_is_too_large_is_passed_on_by_its_length(declared: str | None, length: str) -> None:
    kept = Kept(most_bytes=25)
    asked, seen = streaming(kept)
    headers = {} if declared is None else {"Content-Length": declared}
    ask(asked, scope(path="/uploads", headers=headers), *[part(b"x" * 20, more=True)] * 2, part(b"x" * 20))
    assert seen[1]["CONTENT_LENGTH"] == length
    assert len(kept.content) <= 25
    assert kept.closed.is_set()


def test_a_stream_that_drips_is_told_so_and_one_that_keeps_its_pace_is_not() -> None:
    """Who sends as fast as it likes is never late."""
    kept, slow = Kept(), Kept()
    asked, _ = streaming(slow, pace=Pace(0.1, 10_000))
    wire = ask(asked, UPLOAD, part(b"a", more=True))
    assert (wire.status, wire.body, slow.closed.is_set()) == (408, b"ours", True)
    asked, _ = streaming(kept, pace=Pace(0.1, 10))
    assert ask(asked, UPLOAD, part(b"a" * 30, more=True), part(b"b")).status == 201


def test_of_a_stream_that_breaks_off_nothing_is_passed_on() -> None:
    kept = Kept()
    asked, seen = streaming(kept)
    wire = ask(asked, UPLOAD, part(b"a", more=True), GONE)
    assert (wire.status, len(seen), kept.closed.is_set()) == (400, 1, True)


def test_a_disk_that_is_full_is_told() -> None:
    asked, seen = streaming(Kept(full=True))
    wire = ask(asked, UPLOAD, part(b"a"))
    assert (wire.status, wire.body, len(seen)) == (503, b"ours", 1)


def test_only_so_many_streams_are_on_their_way_at_once_and_they_hold_no_thread() -> None:
    asked, _ = streaming(Kept(), streamed=Share(1, 2), threads=1)

    async def two() -> tuple[Wire, Wire]:
        slow, second, plain = Wire(part(b"a", more=True)), Wire(part(b"b")), Wire(part(b"c"))
        first = asyncio.ensure_future(asked(UPLOAD, slow.receive, slow.send))
        while slow.read == 0:
            await asyncio.sleep(0.005)
        await asked(UPLOAD, second.receive, second.send)
        asked._application = echo
        await asked(scope(), plain.receive, plain.send)
        first.cancel()
        await asyncio.wait([first])
        return second, plain

    second, plain = asyncio.run(asyncio.wait_for(two(), 20))
    assert (second.status, plain.status) == (503, 200)
    assert asked._streamed.taken == 0


def _file(kept: Kept) -> ThreadBridge:
    def send(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "20")])
        answer = Told([b"not these"])
        answer.source = kept
        return answer

    return bridge(send, threads=1)


def test_a_file_is_read_as_its_caller_takes_it() -> None:
    kept = Kept(content=b"x" * 20)
    wire = ask(_file(kept), scope("GET"), part(b""))
    assert [len(message["body"]) for message in wire.sent[1:]] == [7, 7, 6, 0]
    assert [message["more_body"] for message in wire.sent[1:]] == [True, True, True, False]
    assert kept.closed.is_set()
    assert all(name.startswith("files") for name in kept.threads)


def test_head_of_a_file_reads_none_of_it() -> None:
    kept = Kept(content=b"x" * 20)
    wire = ask(_file(kept), scope("HEAD"), part(b""))
    assert (wire.body, wire.headers["content-length"], kept.content) == (b"", "20", b"x" * 20)
    assert kept.closed.is_set()


def test_who_takes_a_file_slowly_holds_no_thread_and_lets_go_of_it_when_it_goes() -> None:
    kept = Kept(content=b"x" * 20)
    asked, taking = _file(kept), asyncio.Event()

    async def stuck(message: Any) -> None:
        taking.set()
        await asyncio.Event().wait()

    async def both() -> Wire:
        slow = asyncio.ensure_future(asked(scope("GET"), Wire(part(b"")).receive, stuck))
        await taking.wait()
        asked._application = echo
        plain = Wire(part(b"c"))
        await asked(scope(), plain.receive, plain.send)
        slow.cancel()
        await asyncio.wait([slow])
        return plain

    assert asyncio.run(asyncio.wait_for(both(), 20)).body == b"c"
    assert kept.closed.wait(5)
