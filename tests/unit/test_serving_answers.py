"""Answers on their way to the server: as long as they say, in one piece or as they come."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from tests.unit.http_wire import ECHO_HEADERS, ask, bridge, never, part, scope


def test_an_answer_that_says_not_modified_has_no_length() -> None:
    def unmodified(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("304 Not Modified", [("ETag", '"a"'), ("Content-Length", "0")])
        return [b""]

    assert ask(bridge(unmodified), scope("GET"), part(b"")).headers == {"etag": '"a"'}


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


def test_a_websocket_is_closed() -> None:
    wire = ask(bridge(never), {"type": "websocket"})
    assert wire.sent == [{"type": "websocket.close"}]
