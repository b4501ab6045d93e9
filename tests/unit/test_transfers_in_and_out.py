"""Files, in and out: in no memory as a whole, and in no thread while their caller is waited for."""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from project.places import Share
from project.serving import ThreadBridge
from project.streams import Pace
from tests.unit.http_wire import GONE, Wire, ask, bridge, echo, part, scope


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
    assert asked._transfers.coming.taken == 0


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
        asked._threads._application = echo
        await asked(scope(), plain.receive, plain.send)
        first.cancel()
        await asyncio.wait([first])
        return second, plain

    second, plain = asyncio.run(asyncio.wait_for(two(), 20))
    assert (second.status, plain.status) == (503, 200)
    assert asked._transfers.coming.taken == 0


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
        asked._threads._application = echo
        plain = Wire(part(b"c"))
        await asked(scope(), plain.receive, plain.send)
        slow.cancel()
        await asyncio.wait([slow])
        return plain

    assert asyncio.run(asyncio.wait_for(both(), 20)).body == b"c"
    assert kept.closed.wait(5)
