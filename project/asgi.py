"""The web application, for granian's ASGI interface or any other ASGI server.

Under granian each web process ends with the main process that started it: one that outlived a killed main process would
hold the port, and nobody would ever stop it. Other servers look after their processes in their own ways, and the parent
of a server without a main process is whatever started it, a shell perhaps; so there nothing is done.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import get_resolver

from project.callers import Callers
from project.limits import Limits
from project.places import Share
from project.serving import Keys, ThreadBridge
from project.streams import Pace
from project.wsgi_call import Answer
from workers import kernel

log = structlog.get_logger(__name__)

API = "/api/"  # whose views refuse a body by its length
VIEWS = (
    "/api/v1/"  # where each needs a key, and says of a request that comes without its body first whether it may send it
)
HELD_BYTES = (
    64 * 1024 * 1024
)  # in all bodies; one client has a quarter, which a body at least fits into, and so have all strangers together
ADMIN = "/admin/"  # whose forms are the only other bodies
UPLOAD_BYTES_PER_SECOND = 16_384  # a file that comes more slowly is not waited for
OTHER_BYTES = 16_384  # enough for any view to say what is wrong with a body


def _own_answer(status: int, request_id: str) -> Answer:
    response = JsonResponse({"status": "ok"}) if status == 200 else _refusal(status, request_id)
    response.headers["X-Request-Id"] = request_id
    headers = [(name.lower().encode(), str(value).encode()) for name, value in response.items()]
    return Answer(status, headers, response.content)


def _refusal(status: int, request_id: str) -> HttpResponse:
    from jobs import telemetry  # only once Django is set up
    from jobs.api.errors import Problem

    telemetry.HTTP_REFUSED.labels(status).inc()
    log.info("request_refused", status=status, request_id=request_id)
    return {
        400: Problem(
            "bad_request",
            "The body ended before it was whole, or is in a transfer coding that is not known; nothing was done.",
        ),
        408: Problem("too_slow", "The body did not come in time; nothing was done.", retry_after=1),
        413: Problem("too_large", "The body is larger than this address takes."),
        429: Problem(
            "too_many_transfers",
            f"This client has {Limits.streamed.of_one} files on their way into this web process, or out of it; come again when one of them is done.",
            retry_after=1,
        ),
        503: Problem(
            "unavailable", "So much waits here that this request got no turn; nothing was done.", retry_after=1
        ),
    }[status].response()


def _body_bytes(path: str) -> int:
    """Strangers send bodies too: no more is kept of one than the address could take."""
    from jobs.api.bodies import limit_bytes

    if path.startswith(API):
        return limit_bytes(path)
    if not path.startswith(ADMIN):
        return OTHER_BYTES
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return sys.maxsize if most is None else most  # None is Django's word for no limit


def _application() -> ThreadBridge:
    handler = get_wsgi_application()
    from jobs import notify  # only once Django is set up
    from jobs.api.bodies import BATCHES, limit_bytes
    from jobs.api.requests import ARRIVED, EARLIER, request_id
    from jobs.api.uploads import PATH
    from jobs.api.waiting import WAITED

    get_resolver().url_patterns  # noqa: B018  imports the views, which else the first callers would wait for
    notify.tell_of_ends()
    limits = Limits(
        _body_bytes,
        refuses_by_length=lambda path: path.startswith(API),
        held=Share(HELD_BYTES, max(HELD_BYTES // 4, limit_bytes(), limit_bytes(BATCHES))),
        needs_key=lambda path: path.startswith(VIEWS),
        body_seconds=settings.WEIGHBRIDGE_ARRIVAL_SECONDS,
        streams=lambda method, path: method == "POST" and path == PATH,
        pace=Pace(settings.WEIGHBRIDGE_ARRIVAL_SECONDS, UPLOAD_BYTES_PER_SECOND),
    )
    keys = Keys(waited=WAITED, arrived=ARRIVED, earlier=EARLIER)
    callers = Callers(session_cookie=settings.SESSION_COOKIE_NAME)
    return ThreadBridge(handler, _own_answer, limits, keys, request_id, _when_told_to_stop, callers)


def _when_told_to_stop(act: Callable[[], object]) -> None:
    """Besides what the server does then: asyncio hears of a signal by a descriptor, and others are called on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def told(number: int, frame: FrameType | None, before: Any = before) -> None:
            act()
            if callable(before):
                before(number, frame)

        signal.signal(number, told)


def _is_granian(command: list[str]) -> bool:
    """Of `granian …`, or `python -m granian …`."""
    return any(Path(word).name == "granian" for word in command[:4])


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
if _is_granian(kernel.command_of(os.getppid())):
    kernel.die_with_parent()
application = _application()
