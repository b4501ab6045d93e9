"""One call of a WSGI application: an ASGI scope as its environ, and what it returns as an answer."""

import io
import sys
from collections.abc import Callable, Hashable, Iterable, MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol

Message = MutableMapping[str, Any]
Headers = list[tuple[bytes, bytes]]
ACCEPTED = 202
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Hold(Protocol):
    """What a response bears as `hold` if its caller would rather wait for a later one."""

    @property
    def seconds(self) -> float:
        """The longest that the caller waits."""

    @property
    def ended(self) -> "Future[None]":
        """Done when there is something new to say."""

    def caller_left(self) -> None:
        """The caller did not wait to the end. Called in a thread, before release."""

    def release(self) -> None:
        """The wait is over, however it ended. Quick: it is called on the event loop."""


class Sink(Protocol):
    """What a response bears as `sink` if its request's body is still to come: into this, and then the request is asked once more."""

    @property
    def most_bytes(self) -> int: ...

    def write(self, some: bytes) -> int:
        """Called in a thread, as close is. Raises OSError."""

    def close(self) -> None: ...


class Source(Protocol):
    """What a response bears as `source` if its body is to be read from there, as the caller takes it."""

    def read(self, most_bytes: int) -> bytes:
        """Nothing at its end. Called in a thread, as close is."""

    def close(self) -> None: ...


class Record(Protocol):
    """What a response bears as `record` where its request's environ says that the server tells: what is to be told of the request.

    One of the two is called, in a thread, once for each request, however often it was asked.
    """

    def answered(self) -> None:
        """With this response."""

    def left(self) -> None:
        """Its caller did not wait for any."""


@dataclass(frozen=True)
class Answer:
    """`hold`: the answer may be held back for a better one. `sink`: there is no answer before the body is in it.

    `source`: where the body is read from; whoever has the answer closes it. `owner`: whose request it is, and what goes into the one or comes out of the
    other; None for a stranger's.
    `record`: to be told of once the answer is chosen.
    """

    status: int
    headers: Headers
    body: bytes
    hold: Hold | None = None
    sink: Sink | None = None
    source: Source | None = None
    owner: Hashable = None
    record: Record | None = None

    @property
    def is_last(self) -> bool:
        """Whether it is sent, whatever else happens: not if a better one may come, or if its file may find no place on its way out."""
        return self.hold is None and self.sink is None and self.source is None and not self.awaits_body

    @property
    def awaits_body(self) -> bool:
        """Of a request that was asked without its body: it may send it."""
        return self.status == 100

    def told(self) -> "Answer":
        """Itself, now that it is the one that is sent. In a thread."""
        if self.record is not None:
            self.record.answered()
        return self


def environ_of(scope: Message, body: bytes | int) -> dict[str, Any]:
    """The request as WSGI has it. Of a body that was too large only the length is passed on, for it to be refused by."""
    host, port = scope.get("server") or ("localhost", 80)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": (scope.get("client") or ("", 0))[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(body if isinstance(body, bytes) else b""),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    declared = _add_headers(environ, scope["headers"])
    # Said anew: a body that came in chunks has no length of its own.
    environ["CONTENT_LENGTH"] = str(len(body)) if isinstance(body, bytes) else declared or str(body)
    return environ


def _add_headers(environ: dict[str, Any], headers: Headers) -> str:
    """The declared length of the body; empty if there was none."""
    declared = ""
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").upper(), raw_value.decode("latin-1")
        if name == "CONTENT-LENGTH":
            declared = value
        elif name == "CONTENT-TYPE":
            environ["CONTENT_TYPE"] = value
        # X_Y would be taken for X-Y, which a proxy in front may guard; a body in chunks is whole by now.
        elif "_" not in name and name != "TRANSFER-ENCODING":
            key = f"HTTP_{name.replace('-', '_')}"
            between = "; " if name == "COOKIE" else ","  # HTTP/2 sends each cookie by itself
            environ[key] = f"{environ[key]}{between}{value}" if key in environ else value
    return declared


def run(
    application: Application, environ: dict[str, Any], emit: Callable[[Message], None], rather: Answer | None = None
) -> Answer | None:
    """In a thread: the answer, if it came in one piece; one of several is sent piece by piece. `rather`: what is true still if the answer is a failure; and
    where it accepted something, a refusal, as of a key that was revoked meanwhile, would hide what was accepted."""
    answer = _called(application, environ, emit)
    if answer is None:
        return None
    if rather is not None and answer.status >= (400 if rather.status == ACCEPTED else 500):
        return rather.told()
    return answer.told() if answer.is_last else answer


def _called(application: Application, environ: dict[str, Any], emit: Callable[[Message], None]) -> Answer | None:
    started: list[tuple[int, Headers]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        started[:] = [(int(status[:3]), raw)]

    response = application(environ, start_response)
    try:
        source, sink, record, owner = (getattr(response, name, None) for name in ("source", "sink", "record", "owner"))
        if source is not None or sink is not None:
            return Answer(*started[0], b"", sink=sink, source=source, owner=owner, record=record)
        answer = _emitted(iter(response), started, emit, getattr(response, "hold", None), record)
        return answer and replace(answer, owner=owner)
    finally:
        close = getattr(response, "close", None)
        if close is not None:
            close()


def _emitted(
    pieces: Any,
    started: list[tuple[int, Headers]],
    emit: Callable[[Message], None],
    hold: Hold | None,
    record: Record | None,
) -> Answer | None:
    first, second = next(pieces, b""), next(pieces, None)
    status, headers = started[0]
    answer = Answer(status, headers, first, hold, record=record)
    if second is None:
        return answer
    answer.told()
    emit({"type": "http.response.start", "status": status, "headers": headers})
    for piece in (first, second):
        emit({"type": "http.response.body", "body": piece, "more_body": True})
    for piece in pieces:
        emit({"type": "http.response.body", "body": piece, "more_body": True})
    emit({"type": "http.response.body", "body": b"", "more_body": False})
    return None
