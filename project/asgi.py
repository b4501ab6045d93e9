"""The web application, for granian's ASGI interface or any other ASGI server."""

from django.conf import settings

from project.serving import Answer, Limits, ThreadBridge
from project.wsgi import application as _django


def _refusal(status: int) -> Answer:
    from jobs.api.errors import Problem  # only once Django is set up

    sentences = {
        408: ("too_slow", "The body did not come in time; nothing was done."),
        503: ("unavailable", "So many requests wait for an answer that this one was not taken."),
    }
    response = Problem(status, *sentences[status], retry_after=1).response()
    headers = [(name.lower().encode(), str(value).encode()) for name, value in response.items()]
    return Answer(status, headers, response.content)


def _body_bytes(path: str) -> int:
    """Strangers send bodies too: no more is kept of one than the address could take."""
    from jobs.api.bodies import limit_bytes

    return limit_bytes() if path.startswith("/api/") else settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 2_621_440


application = ThreadBridge(_django, _refusal, Limits(_body_bytes))
