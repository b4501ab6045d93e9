"""Requests as Django sees them: what ASGI brought, in WSGI's words."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.http_wire import Message, ask, bridge, echo, part, scope


def environ_for(given: Message, *messages: Message) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []

    def keep(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ)
        return echo(environ, start_response)

    ask(bridge(keep), given, *messages)
    return seen[0]


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
    assert "forged" not in environ.values()


def test_cookies_that_come_one_by_one_are_one_line() -> None:
    given = scope()
    given["headers"] = [(b"cookie", b"a=1"), (b"cookie", b"b=2")]
    assert environ_for(given, part(b""))["HTTP_COOKIE"] == "a=1; b=2"


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
