"""What every request that reaches Django gets: an id, a place in the metrics, one log line.

A server that may ask a request more than once, and choose among the answers, tells of it itself: each response bears a `record` for it; see
project/serving.py. Elsewhere that is done here.
"""

import re
import time
import uuid
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bound_contextvars

from jobs import telemetry, traces
from jobs.api.errors import Problem, database_away
from jobs.keys import live_key

log = structlog.get_logger(__name__)

REQUEST_ID, TRACEPARENT = "weighbridge.request_id", "weighbridge.traceparent"  # their keys in request.META
# The same of the record of the answer before; None at first, if the server tells of records.
EARLIER = "weighbridge.earlier"
# And of what a body came into; None: it is still to come, and the server asks whether its caller may send it.
ARRIVED = "weighbridge.arrived"
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,128}")
_QUIET = {"healthz", "readyz", "metrics"}  # asked every few seconds by machines
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def request_id(given: str) -> str:
    """The caller's own if it is a plain word, else a new one."""
    return given if _GIVEN.fullmatch(given) else uuid.uuid4().hex


class RequestId:
    """Takes the caller's X-Request-Id if it is a plain word, else makes one; returns it either way."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = request_id(request.headers.get("X-Request-Id", ""))
        request.META[REQUEST_ID] = name
        began = _began(request)
        traceparent = request.META[TRACEPARENT] = traces.accepted(request.headers.get("traceparent", ""))
        bound = {"request_id": name, **traced(traceparent)}
        with bound_contextvars(**bound):
            response = self.get_response(request)
        record = Record(_method(request), _route(request), response.status_code, began, bound)
        if EARLIER in request.META:
            response.record = record  # type: ignore[attr-defined]
        else:
            record.answered()
        response.headers["X-Request-Id"] = name
        if (person := _person_in(request)) is not None:
            response.owner = person  # type: ignore[attr-defined]
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return database_away(error)


@dataclass(frozen=True)
class Record:
    """What is told of one request, once. `began`: by time.perf_counter; `bound`: what its log lines bear."""

    method: str
    route: str
    status: int
    began: float
    bound: Mapping[str, str]

    def answered(self) -> None:
        seconds = time.perf_counter() - self.began
        telemetry.HTTP.labels(self.route, self.method, self.status).observe(seconds)
        if self.route not in _QUIET:
            self._log("request", seconds, status=self.status)

    def left(self) -> None:
        """No status: nobody was there to be told one."""
        self._log("request_left", time.perf_counter() - self.began)

    def _log(self, event: str, seconds: float, **more: int) -> None:
        with bound_contextvars(**self.bound):
            log.info(event, method=self.method, route=self.route, **more, milliseconds=round(seconds * 1e3, 1))


def _began(request: HttpRequest) -> float:
    earlier = request.META.get(EARLIER)
    return earlier.began if isinstance(earlier, Record) else time.perf_counter()


def _person_in(request: HttpRequest) -> Hashable:
    """Who is logged in, if anybody had to ask; a server that counts what callers hold is told, as of clients (jobs/api/view.py)."""
    user: Any = getattr(
        request, "_cached_user", None
    )  # where Django keeps it: its `user` would ask the database only now
    return ("person", user.pk) if getattr(user, "is_authenticated", False) else None


def _route(request: HttpRequest) -> str:
    match = request.resolver_match
    return (match.route or "/") if match else "unmatched"


def _method(request: HttpRequest) -> str:
    """It is the caller's free text until it was matched."""
    known = {"GET", "HEAD", "POST", "DELETE", "PATCH", "PUT", "OPTIONS"}
    return request.method if request.method in known else "other"


def is_without_its_body(request: HttpRequest) -> bool:
    """It is asked once more when the body is there."""
    return ARRIVED in request.META and request.META[ARRIVED] is None


def traced(traceparent: str) -> dict[str, str]:
    """What log lines say of a trace, if there is one."""
    return {"trace_id": traces.trace_id(traceparent)} if traceparent else {}


def bearer_of(headers: Mapping[str, str]) -> str:
    """The key that a request came with; empty if there is none."""
    kind, _, given = headers.get("Authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


def has_scope(request: HttpRequest, scope: str) -> bool:
    """Whether it came with a live key that has the scope: for plain views, which ask for a key only of some."""
    given = bearer_of(request.headers)
    key = live_key(given) if given else None
    return key is not None and scope in key.scopes


def from_loopback(request: HttpRequest) -> bool:
    """A proxy on this machine makes everybody look local, so what it forwarded does not count as local."""
    forwarded = "Forwarded" in request.headers or "X-Forwarded-For" in request.headers
    return not forwarded and request.META.get("REMOTE_ADDR", "").startswith(_LOOPBACK)


def only_read(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A plain view that answers GET and HEAD."""

    @wraps(view)
    def reading(request: HttpRequest) -> HttpResponse:
        return view(request) if request.method in {"GET", "HEAD"} else Problem.only_read().response()

    return reading
