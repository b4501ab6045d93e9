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
from rest_framework import exceptions

from jobs.api.codes import CODES
from jobs.door.idempotency import BadKey, Mismatch
from jobs.door.invalid import InvalidJob, UnknownType, places
from jobs.files.room import NoRoom
from jobs.files.uploads import KeyTaken
from jobs.models import Batch, Job
from jobs.registry import AuthorsFault
from jobs.row_locks import RowHeld

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
_OF_A_BATCH = re.compile(r"/api/v1/batches/[^/]+")
_OF_A_JOB = re.compile(r"/api/v1/jobs/[^/]+(/result|/artifacts/[^/]+)?")
_OF_AN_UPLOAD = re.compile(r"/api/v1/uploads/[^/]+")


class Problem(Exception):
    """An answer that is an error. `members` go into the body beside the standard ones; `status` is the code's own unless it is told."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status or CODES[code].status
        self.code, self.detail, self.members = code, detail, members
        self.retry_after, self.headers = retry_after, dict(headers or {})

    def response(self) -> HttpResponse:
        body = {
            "type": f"urn:weighbridge:problem:{self.code}",
            "title": CODES[self.code].title,
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
    def not_cancellable(cls, job: dict[str, Any]) -> "Problem":
        return cls("not_cancellable", f"The job is {job['state']}; nothing is left to cancel.", job=job)

    @classmethod
    def not_found(cls, detail: str) -> "Problem":
        return cls("not_found", detail)

    @classmethod
    def only_read(cls) -> "Problem":
        detail = "This address is only read: send GET."
        return cls("method_not_allowed", detail, headers={"Allow": "GET, HEAD"})

    @classmethod
    def too_large(cls, what: str, limit_bytes: int) -> "Problem":
        return cls("too_large", f"{what}; at most {limit_bytes} are taken.", limit_bytes=limit_bytes)

    @classmethod
    def invalid(cls, error: InvalidJob) -> "Problem":
        limit: dict[str, Any] = {**error.seconds}
        if error.limit_bytes is not None:
            limit["limit_bytes"] = error.limit_bytes
        sentence = error.sentence
        if isinstance(error, UnknownType):
            sentence = f"{sentence.removesuffix('.')}; GET /api/v1/types lists them."
        return cls(error.code, sentence, errors=error.errors, **limit)

    @classmethod
    def unreadable_query(cls, error: ValidationError, sentence: str) -> "Problem":
        return cls("invalid_request", sentence, errors=places(error))

    @classmethod
    def no_disk(cls) -> "Problem":
        return cls("unavailable", "Files cannot be kept here now; nothing was done.", retry_after=5)

    @classmethod
    def no_storage(cls) -> "Problem":
        return cls("unavailable", "Files cannot be read here now.", retry_after=5)

    @classmethod
    def uploads_full(cls, error: NoRoom) -> "Problem":
        after = error.retry_after_seconds
        return cls("uploads_full", str(error), retry_after=after, limit_bytes=error.limit_bytes)

    @classmethod
    def internal_error(cls) -> "Problem":
        return cls("internal_error", "The error was logged under this request's id.")

    @classmethod
    def would_deadlock(cls, cost_class: str) -> "Problem":
        sentence = (
            f"A running job of class {cost_class} would wait for another of its class, and may hold the process that the other one needs."
            " Submit it without waiting, and look for its result in a later attempt (RetryLater); or give one of the two another class."
        )
        return cls("would_deadlock", sentence, cost_class=cost_class)

    @classmethod
    def held(cls, what: str = "job") -> "Problem":
        sentence = f"Somebody else is changing this {what} just now; nothing was done."
        return cls("unavailable", sentence, retry_after=1)

    @classmethod
    def database_away(cls) -> "Problem":
        return cls("unavailable", "The database cannot be reached now.", retry_after=5)

    @classmethod
    def database_lost(cls) -> "Problem":
        detail = "The database was lost while it was asked; it is not known whether the request was carried out."
        return cls("unavailable", detail, retry_after=5, outcome_unknown=True)


@contextmanager
def changing_something() -> Iterator[None]:
    """Around what changes something: when the database is lost in here, it may have been before the commit or after."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        _log_away(error)
        raise Problem.database_lost() from error


def problem(error: Exception, context: dict[str, Any]) -> HttpResponseBase | None:
    """DRF's exception handler: everything a view may raise, as one Problem."""
    return as_problem(error).response()


def as_problem(error: Exception) -> Problem:
    return error if isinstance(error, Problem) else _of_ours(error) or _of_the_frameworks(error) or _of_nobodys(error)


def _of_ours(error: Exception) -> Problem | None:
    match error:
        case InvalidJob():
            return Problem.invalid(error)
        case Job.DoesNotExist():
            return Problem.not_found("There is no job of that id.")
        case Batch.DoesNotExist():
            return Problem.not_found("There is no batch of that id.")
        case RowHeld():
            return Problem.held()
        case BadKey():
            return Problem("bad_request", str(error))
        case Mismatch():
            return Problem("idempotency_mismatch", str(error))
        case KeyTaken():
            sentence = "This Idempotency-Key was used for an upload of other content before; a new one needs a new key."
            return Problem("idempotency_mismatch", sentence)
        case NoRoom():
            return Problem.uploads_full(error)
        case AuthorsFault():
            log.error(error.code, type=error.job_type, error=str(error))
            return Problem.internal_error()
    return None


def _of_the_frameworks(error: Exception) -> Problem | None:
    """Of Django, and of Django REST framework."""
    match error:
        case OperationalError() | InterfaceError():
            _log_away(error)
            return Problem.database_away()
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return Problem("unauthorized", str(error.detail), headers={"WWW-Authenticate": "Bearer"})
        case exceptions.PermissionDenied():
            return Problem("forbidden", str(error.detail))
        case exceptions.MethodNotAllowed():
            return Problem("method_not_allowed", str(error.detail))
        case exceptions.UnsupportedMediaType():
            return Problem("unsupported_media_type", "Send the body as application/json, in no Content-Encoding.")
        case exceptions.ParseError():
            return Problem("bad_request", str(error.detail))
        case SuspiciousOperation():  # too many parameters, say
            return Problem("bad_request", "The request cannot be read: it holds too much, or what no client sends.")
        case exceptions.NotFound():
            return Problem.not_found(str(error.detail))
    return None


def _of_nobodys(error: Exception) -> Problem:
    """Without its message, which may hold params."""
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
    return Problem("bad_request", "The request's headers or address cannot be read.").response()


def not_found(request: HttpRequest, exception: Exception | None = None, **kwargs: Any) -> HttpResponse:
    if request.path.startswith("/admin/") and exception is not None:
        return page_not_found(request, exception)
    if _OF_A_BATCH.fullmatch(request.path):
        return Problem.not_found("There is no batch of that id: an id is a UUID, as the answer gave it.").response()
    if _OF_AN_UPLOAD.fullmatch(request.path):
        return Problem.not_found("There is no upload of that id: an id is a UUID, as the answer gave it.").response()
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
