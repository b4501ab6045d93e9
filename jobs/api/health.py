"""Whether this process lives, and whether jobs can be accepted."""

from typing import Any

from django.db.utils import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse

from jobs import broker, queries


def healthz(request: HttpRequest) -> HttpResponse:
    """No I/O: a supervisor asks this, and must not restart a process because a database is away."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 while jobs can be accepted; `degraded` when wake-ups cannot be sent, so only the sweeps start jobs."""
    try:
        classes = {view.cost_class.name: _consumption(view) for view in queries.class_views()}
    except (OperationalError, InterfaceError):
        return JsonResponse({"status": "unavailable", "database": "away"}, status=503, headers={"Retry-After": "5"})
    sent = broker.answers()
    return JsonResponse(
        {
            "status": "ok" if sent else "degraded",
            "database": "ok",
            "broker": "ok" if sent else "away",
            "classes": classes,
        }
    )


def _consumption(view: queries.ClassView) -> dict[str, Any]:
    slots = view.room.slots
    return {"slots": slots, "consuming": slots > 0, "paused": view.paused, "draining": view.draining}
