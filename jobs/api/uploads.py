"""POST /uploads, and what a client may ask of its uploads.

A server that streams asks twice: first without the body, so that strangers and what is too large are refused before
anything is read. That answer bears a `sink`, into which the server writes the body as it comes; see project/serving.py.
The request that comes again finds it in WSGI's environ. Where a body comes with its request, as in WSGI, it is read
here.
"""

from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api import digests, refused, serializers
from jobs.api.errors import Problem, changing_something
from jobs.api.requests import ARRIVED, is_without_its_body
from jobs.api.view import View
from jobs.door import idempotency
from jobs.files import room, uploads
from jobs.files.spool import Spool
from jobs.keys import SUBMIT
from jobs.models import ApiClient, Upload

PATH = "/api/v1/uploads"
READ_BYTES = 262_144


class Uploads(View):
    scopes = {"POST": SUBMIT}
    says_who_may_send = True

    def post(self, request: Request) -> HttpResponseBase:
        digest, key = _checked(request)
        spool = request.META.get(ARRIVED)
        if is_without_its_body(request):
            return _room_for_it()
        if isinstance(spool, Spool):
            return _kept(request, spool, digest, key)
        with _spool() as spool:
            _read(request, spool)
            return _kept(request, spool, digest, key)


def _checked(request: Request) -> tuple[str | None, str | None]:
    """The digest and the key that it came with. Raises Problem for what would not be kept, whatever its bytes are."""
    if _caller(request).suspended_at is not None:
        raise Problem("client_suspended", refused.SUSPENDED)
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type.startswith("multipart/"):
        raise Problem("unsupported_media_type", "Send the file itself as the body, not a form that holds it.")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Problem("unsupported_media_type", "Send the file as it is: a Content-Encoding is not undone here.")
    digest, key = digests.asked(request.headers), None
    if "Idempotency-Key" in request.headers:
        key = idempotency.read(request.headers["Idempotency-Key"], "POST", request.path, None).key
    length = _length(request)
    if length > settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES:
        raise Problem.too_large(f"The body is {length} bytes", settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES)
    if key is None:  # one that is known needs no room
        room.refuse_without_room(_caller(request), length)
    return digest, key


def _length(request: Request) -> int:
    """0 where it is not known yet."""
    given = request.META.get("CONTENT_LENGTH") or "0"
    return int(given) if given.isascii() and given.isdigit() else 0


def _caller(request: Request) -> ApiClient:
    return cast(ApiClient, request.user)


def _room_for_it() -> HttpResponse:
    answer = HttpResponse(status=100)
    answer.sink = _spool()  # type: ignore[attr-defined]
    return answer


def _spool() -> Spool:
    try:
        return Spool(settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES)
    except OSError as error:
        raise Problem.no_disk() from error


def _read(request: Request, spool: Spool) -> None:
    """A length that was declared is the most that is read."""
    try:
        while request.stream is not None and (some := request.stream.read(READ_BYTES)):
            spool.write(some)
    except OSError as error:  # the disk is full, or the caller went
        raise Problem.no_disk() from error


def _kept(request: Request, spool: Spool, digest: str | None, key: str | None) -> Response:
    digests.must_be(digest, spool.sha256)
    try:
        with changing_something():
            kept = uploads.keep(_caller(request), spool, key)
    except OSError as error:
        raise Problem.no_disk() from error
    body = shown(kept.upload)
    headers = {"Location": body["links"]["self"]}
    if kept.replayed:
        return Response(body, headers={**headers, "Idempotency-Replayed": "true"})
    return Response(body, status=201, headers=headers)


def shown(row: Upload) -> dict[str, Any]:
    kept_until = row.created_at + timedelta(seconds=settings.WEIGHBRIDGE_KEEP_UPLOADS_SECONDS)
    return {
        "id": str(row.pk),
        "bytes": row.size_bytes,
        "sha256": row.sha256,
        "created_at": serializers.instant(row.created_at),
        "kept_until": serializers.instant(kept_until),
        "links": {"self": f"{PATH}/{row.pk}"},
    }


class OneUpload(View):
    scopes = {"GET": SUBMIT, "DELETE": SUBMIT}

    def get(self, request: Request, upload_id: UUID) -> Response:
        return Response(shown(_theirs(request, upload_id)))

    def delete(self, request: Request, upload_id: UUID) -> HttpResponseBase:
        if not uploads.discard(_theirs(request, upload_id)):
            raise Problem(
                "upload_in_use",
                "A job that has not ended, or is yet to be admitted, names this upload; it stays until then.",
            )
        answer = HttpResponse(status=204)
        del answer["Content-Type"]  # which Django gives it, though there is nothing that it could be the type of
        return answer


def _theirs(request: Request, upload_id: UUID) -> Upload:
    found = uploads.of_client(_caller(request).pk).filter(pk=upload_id).first()
    if found is None:
        raise Problem.not_found("There is no upload of that id, or its time is over.")
    return found
