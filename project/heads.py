"""What a request's head says of it, before anything of its body is read."""

from collections.abc import Callable

from project.wsgi_call import Message

REQUEST_ID = b"x-request-id"


def plainly_sent(scope: Message) -> bool:
    """In chunks and in no other coding: what only we would take for the body as it is, a proxy in front may take for another."""
    codings = [value.strip().lower() for value in _given(scope, b"transfer-encoding")]
    return codings in ([], [b"chunked"])


def has_body(scope: Message) -> bool:
    """HTTP/1.1 says so; where another version need not, it may have one."""
    told = length(scope) != 0 or bool(_given(scope, b"transfer-encoding"))
    return told or not scope["http_version"].startswith("1")


def length(scope: Message) -> int | None:
    """Of the body, in bytes; 0 where it is not told, None where that is no length."""
    told = next(iter(_given(scope, b"content-length")), b"0").strip()
    return int(told) if told.isdigit() and len(told) < 19 else None


def waits_for_leave(scope: Message) -> bool:
    """It sends no body before it is told to (Expect: 100-continue)."""
    return bool(_given(scope, b"expect"))


def with_id(scope: Message, named: Callable[[str], str]) -> Message:
    """The request with one X-Request-Id, for all that is made of it."""
    given = [value.decode("latin-1") for value in _given(scope, REQUEST_ID)]
    others = [header for header in scope["headers"] if header[0] != REQUEST_ID]
    return {**scope, "headers": [*others, (REQUEST_ID, named(",".join(given)).encode("latin-1"))]}


def request_id(scope: Message) -> str:
    return _given(scope, REQUEST_ID)[0].decode("latin-1")


def credentials(scope: Message, session_cookie: str) -> bytes:
    """A key, or what people have in its place; empty for who has neither."""
    return b",".join(_given(scope, b"authorization")) or _cookie(scope, session_cookie)


def _cookie(scope: Message, wanted: str) -> bytes:
    parts = (part.partition(b"=") for line in _given(scope, b"cookie") for part in line.split(b";"))
    return next((part for part in parts if part[0].strip() == wanted.encode()), (b"", b"", b""))[2].strip()


def _given(scope: Message, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]
