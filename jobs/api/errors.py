"""Every error of the API as problem+json (RFC 9457), each with a sentence for whoever reads it."""

import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from django.core.exceptions import SuspiciousOperation
from django.db.utils import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.csrf import csrf_failure
from django.views.defaults import page_not_found
from django.views.defaults import server_error as plain_server_error
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from rest_framework import exceptions

from jobs.admission import Rejected
from jobs.door.idempotency import BadKey, Mismatch
from jobs.door.quotas import WINDOW_SECONDS, Rate
from jobs.door.weighing import UndeclaredClass
from jobs.models import Batch, Job
from jobs.row_locks import RowHeld
from jobs.uploads import KeyTaken, NoRoom, UnknownUploads

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
_OF_A_BATCH = re.compile(r"/api/v1/batches/[^/]+")
_OF_A_JOB = re.compile(r"/api/v1/jobs/[^/]+(/result)?")

TITLES = {
    "batch_too_large": "The batch can never be admitted as a whole.",
    "bad_request": "The request cannot be read.",
    "deadline_infeasible": "The deadline cannot be met.",
    "digest_mismatch": "The body is not what its sender meant.",
    "forbidden": "This key may not do that.",
    "idempotency_in_flight": "The first request of this key is still being answered.",
    "idempotency_mismatch": "This key belongs to another request.",
    "internal_error": "Something went wrong here.",
    "invalid_params": "The params are not valid.",
    "invalid_request": "The request is not valid.",
    "limit_out_of_range": "A limit is out of its range.",
    "method_not_allowed": "This address does not take that method.",
    "not_cancellable": "The job has already ended.",
    "no_result": "This job has no result.",
    "not_finished": "The job has not ended yet.",
    "not_found": "There is nothing here.",
    "precondition_failed": "A condition of the request does not hold.",
    "queue_full": "The class is full.",
    "range_not_satisfiable": "There is no such part.",
    "rate_limited": "This client submits too often.",
    "result_gone": "The result is no longer kept.",
    "too_large": "The request is too large.",
    "too_many_jobs": "This client has as many jobs as it may have.",
    "too_slow": "The request came too slowly.",
    "type_unavailable": "No worker runs this job type now.",
    "unauthorized": "A valid key is needed.",
    "unavailable": "Jobs cannot be accepted now.",
    "unknown_type": "There is no such job type.",
    "unsupported_media_type": "The body is not of a type that is taken here.",
    "upload_in_use": "A job needs this upload.",
    "uploads_full": "This client keeps as much as it may.",
    "would_deadlock": "This job would wait for itself.",
}


class Problem(Exception):
    """An answer that is an error. `members` go into the body beside the standard ones."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.members = status, code, detail, members
        self.retry_after, self.headers = retry_after, dict(headers or {})

    def response(self) -> HttpResponse:
        body = {
            "type": f"urn:weighbridge:problem:{self.code}",
            "title": TITLES[self.code],
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "retryable": self.retry_after is not None,
            **self.members,
        }
        headers = {"Cache-Control": "no-store", **self.headers}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return JsonResponse(body, status=self.status, content_type=CONTENT_TYPE, headers=headers)

    @classmethod
    def refused(cls, rejected: Rejected) -> "Problem":
        if rejected.reason == "deadline_infeasible":
            return cls(422, rejected.reason, "The deadline has already passed.")
        if rejected.reason == "too_many_jobs":
            sentence = "This client has as many jobs waiting and running as it may have at once."
            after = rejected.retry_after_seconds
            return cls(429, rejected.reason, sentence, retry_after=after, headers=_quota_headers(rejected))
        if rejected.reason == "idempotency_in_flight":
            sentence = "Another request with this Idempotency-Key is being admitted; ask again for what became of it."
            return cls(409, rejected.reason, sentence, retry_after=rejected.retry_after_seconds)
        return cls(
            503,
            rejected.reason,
            _why(rejected),
            retry_after=rejected.retry_after_seconds,
            retry_after_seconds=rejected.retry_after_seconds,
            cost_class=rejected.cost_class.name,
            **_depth(rejected),
        )

    @classmethod
    def rate_limited(cls, rate: Rate) -> "Problem":
        sentence = f"This client may submit {rate.limit} jobs a minute; there is room for the next one in {rate.more_in_seconds} s."
        return cls(429, "rate_limited", sentence, retry_after=rate.more_in_seconds, headers=rate_headers(rate))

    @classmethod
    def not_cancellable(cls, job: dict[str, Any]) -> "Problem":
        return cls(409, "not_cancellable", f"The job is {job['state']}; nothing is left to cancel.", job=job)

    @classmethod
    def not_found(cls, detail: str) -> "Problem":
        return cls(404, "not_found", detail)

    @classmethod
    def only_read(cls) -> "Problem":
        detail = "This address is only read: send GET."
        return cls(405, "method_not_allowed", detail, headers={"Allow": "GET, HEAD"})

    @classmethod
    def unknown_type(cls, name: str) -> "Problem":
        return cls(422, "unknown_type", f"There is no job type {name[:100]!r}; GET /api/v1/types lists them.")

    @classmethod
    def too_large(cls, what: str, limit_bytes: int) -> "Problem":
        return cls(413, "too_large", f"{what}; at most {limit_bytes} are taken.", limit_bytes=limit_bytes)

    @classmethod
    def limit_out_of_range(cls, name: str, value: float, low: float, high: float) -> "Problem":
        message = f"must be from {low:g} to {high:g} seconds here"
        return cls(
            422, "limit_out_of_range", f"{name} is {value:g}; it {message}.", errors=[{"loc": [name], "msg": message}]
        )

    @classmethod
    def invalid(cls, code: str, detail: str, error: ValidationError, within: tuple[str, ...] = ()) -> "Problem":
        """Places and reasons. The offending value is left out: it may be a secret."""
        errors = [
            {"loc": [*within, *map(str, item["loc"])], "msg": _said(item)}
            for item in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        return cls(422, code, detail, errors=errors[:100])

    @classmethod
    def unknown_uploads(cls, type_name: str, error: UnknownUploads) -> "Problem":
        """As any other param that is not valid: whether another client has such an upload is nobody else's business."""
        errors = [{"loc": ["params", *map(str, place)], "msg": str(error)} for place in error.places]
        return cls(422, "invalid_params", f"The params do not fit {type_name}.", errors=errors[:100])

    @classmethod
    def no_disk(cls) -> "Problem":
        return cls(503, "unavailable", "Files cannot be kept here now; nothing was done.", retry_after=5)

    @classmethod
    def uploads_full(cls, error: NoRoom) -> "Problem":
        sentence = f"{error} Delete one that no job needs, or wait until the oldest goes."
        return cls(429, "uploads_full", sentence, retry_after=300, limit_bytes=error.limit_bytes)

    @classmethod
    def internal_error(cls) -> "Problem":
        return cls(500, "internal_error", "The error was logged under this request's id.")

    @classmethod
    def would_deadlock(cls, cost_class: str) -> "Problem":
        sentence = (
            f"A running job of class {cost_class} would wait for another of its class, and may hold the process that the other one needs."
            " Submit it without waiting, and look for its result in a later attempt (RetryLater); or give one of the two another class."
        )
        return cls(422, "would_deadlock", sentence, cost_class=cost_class)

    @classmethod
    def held(cls, what: str = "job") -> "Problem":
        sentence = f"Somebody else is changing this {what} just now; nothing was done."
        return cls(503, "unavailable", sentence, retry_after=1)

    @classmethod
    def database_away(cls) -> "Problem":
        return cls(503, "unavailable", "The database cannot be reached now.", retry_after=5)

    @classmethod
    def database_lost(cls) -> "Problem":
        detail = "The database was lost while it was asked; it is not known whether the request was carried out."
        return cls(503, "unavailable", detail, retry_after=5, outcome_unknown=True)


def rate_headers(rate: Rate) -> dict[str, str]:
    """As the IETF's draft has them: the policy, and what is left of it."""
    return {
        "RateLimit-Policy": f'"submits";q={rate.limit};w={WINDOW_SECONDS}',
        "RateLimit": f'"submits";r={rate.remaining};t={rate.more_in_seconds}',
    }


def _quota_headers(rejected: Rejected) -> dict[str, str]:
    quota, after = rejected.quota, rejected.retry_after_seconds
    if quota is None:
        return {}
    return {"RateLimit-Policy": f'"jobs";q={quota.most}', "RateLimit": f'"jobs";r={quota.left};t={after}'}


@contextmanager
def changing_something() -> Iterator[None]:
    """Around what changes something: when the database is lost in here, it may have been before the commit or after."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        _log_away(error)
        raise Problem.database_lost() from error


def _said(error: "ErrorDetails") -> str:
    """Pydantic's words, but for those that speak of its own models."""
    plain = {"extra_forbidden": "There is no field of that name.", "model_type": "Must be a JSON object."}
    return plain.get(error["type"], error["msg"].removeprefix("Value error, "))


def _why(rejected: Rejected) -> str:
    room, name = rejected.room, rejected.cost_class.name
    if rejected.reason == "unavailable" or room is None:
        return f"So many jobs are being submitted to class {name} that this one got no turn within a second."
    if rejected.reason == "type_unavailable":
        return f"No live worker of class {name} knows this job type; one may be starting."
    if room.slots == 0:
        return f"Class {name} is full and no worker of it is alive to drain it; when it will be is not known."
    return f"Class {name} is full: {room.running} running on {room.slots} slots and {room.waiting} waiting."


def _depth(rejected: Rejected) -> dict[str, Any]:
    if rejected.room is None:
        return {}
    max_waiting = rejected.cost_class.max_waiting
    return {
        "waiting": rejected.room.waiting,
        "max_waiting": max_waiting,
        "running": rejected.room.running,
        "slots": rejected.room.slots,
        "room": rejected.room.free(max_waiting),
    }


def problem(error: Exception, context: dict[str, Any]) -> HttpResponseBase | None:
    """DRF's exception handler: everything a view may raise, as one Problem."""
    return as_problem(error).response()


def as_problem(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case Job.DoesNotExist():
            return Problem.not_found("There is no job of that id.")
        case Batch.DoesNotExist():
            return Problem.not_found("There is no batch of that id.")
        case OperationalError() | InterfaceError():
            _log_away(error)
            return Problem.database_away()
        case RowHeld():
            return Problem.held()
        case BadKey():
            return Problem(400, "bad_request", str(error))
        case Mismatch():
            return Problem(422, "idempotency_mismatch", str(error))
        case KeyTaken():
            sentence = "This Idempotency-Key was used for an upload of other content before; a new one needs a new key."
            return Problem(422, "idempotency_mismatch", sentence)
        case NoRoom():
            return Problem.uploads_full(error)
        case UndeclaredClass():
            log.error("undeclared_class", type=error.job_type, cost_class=error.cost_class, error=str(error))
            return Problem.internal_error()
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return Problem(401, "unauthorized", str(error.detail), headers={"WWW-Authenticate": "Bearer"})
        case exceptions.PermissionDenied():
            return Problem(403, "forbidden", str(error.detail))
        case exceptions.MethodNotAllowed():
            return Problem(405, "method_not_allowed", str(error.detail))
        case exceptions.UnsupportedMediaType():
            return Problem(415, "unsupported_media_type", "Send the body as application/json, in no Content-Encoding.")
        case exceptions.ParseError():
            return Problem(400, "bad_request", str(error.detail))
        case SuspiciousOperation():  # too many parameters, say
            return Problem(
                400, "bad_request", "The request cannot be read: it holds too much, or what no client sends."
            )
        case exceptions.NotFound():
            return Problem.not_found(str(error.detail))
        case _:
            # Without its message, which may hold params.
            frames = traceback.format_list(traceback.extract_tb(error.__traceback__))
            log.error("request_failed", error=type(error).__name__, frames="".join(frames))
            return Problem.internal_error()


def _log_away(error: Exception) -> None:
    log.error("database_away", error=str(error).split("\n")[0])


def database_away(error: Exception) -> HttpResponse | None:
    """For plain views: what DRF's handler does for its own."""
    return as_problem(error).response() if isinstance(error, (OperationalError, InterfaceError)) else None


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    # A host that should be in WEIGHBRIDGE_ALLOWED_HOSTS shows itself so; its name is whatever the caller wrote.
    log.warning("request_unreadable", error=type(exception).__name__)
    return Problem(400, "bad_request", "The request's headers or address cannot be read.").response()


def not_found(request: HttpRequest, exception: Exception | None = None, **kwargs: Any) -> HttpResponse:
    if request.path.startswith("/admin/") and exception is not None:
        return page_not_found(request, exception)
    if _OF_A_BATCH.fullmatch(request.path):
        return Problem.not_found("There is no batch of that id: an id is a UUID, as the answer gave it.").response()
    if _OF_A_JOB.fullmatch(request.path):
        return Problem.not_found(
            "There is no job of that id: an id is a UUID, as the answer to the submit gave it."
        ).response()
    return Problem.not_found("There is no such address.").response()


def server_error(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/admin/"):
        return plain_server_error(request)
    return Problem.internal_error().response()


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    if request.path.startswith("/admin/"):
        return csrf_failure(request, reason)
    return Problem.only_read().response()  # every other address takes keys, and no cookies to be forged with
