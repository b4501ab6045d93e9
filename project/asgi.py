"""The web application, for granian's ASGI interface or any other ASGI server."""

import sys

from django.conf import settings
from django.http import HttpResponse, JsonResponse

from project.serving import Answer, Limits, ThreadBridge
from project.wsgi import application as _django

API = "/api/"  # whose views refuse a body by its length


def _own_answer(status: int, given_request_id: str) -> Answer:
    from jobs.api.requests import request_id  # only once Django is set up

    response = JsonResponse({"status": "ok"}) if status == 200 else _refusal(status)
    response.headers["X-Request-Id"] = request_id(given_request_id)
    headers = [(name.lower().encode(), str(value).encode()) for name, value in response.items()]
    return Answer(status, headers, response.content)


def _refusal(status: int) -> HttpResponse:
    from jobs import telemetry
    from jobs.api.errors import Problem

    telemetry.HTTP_REFUSED.labels(status).inc()
    return {
        408: Problem(408, "too_slow", "The body did not come in time; nothing was done.", retry_after=1),
        413: Problem(413, "too_large", "The body is larger than this address takes."),
        503: Problem(503, "unavailable", "So many requests wait that this one got no turn in time.", retry_after=1),
    }[status].response()


def _body_bytes(path: str) -> int:
    """Strangers send bodies too: no more is kept of one than the address could take."""
    from jobs.api.bodies import limit_bytes

    if path.startswith(API):
        return limit_bytes()
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return sys.maxsize if most is None else most  # None is Django's word for no limit


application = ThreadBridge(_django, _own_answer, Limits(_body_bytes, lambda path: path.startswith(API)))
