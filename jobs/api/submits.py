"""Between HTTP and the door: whose request it is, the key it came with, the caller's own time, and the job that its body asks for."""

import re
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request

from jobs.api.errors import Problem
from jobs.api.requests import REQUEST_ID, TRACEPARENT
from jobs.api.view import caller_of
from jobs.door import asking, idempotency
from jobs.door.asking import AskedJob
from jobs.door.forms import LONGEST_DEADLINE_SECONDS
from jobs.door.idempotency import Idempotency
from jobs.models import ApiClient


@dataclass(frozen=True)
class Origin:
    """Whose request it is, and what it is called in logs and traces."""

    client: ApiClient
    request_id: str
    traceparent: str = ""


def origin_of(request: Request) -> Origin:
    return Origin(caller_of(request), request.META[REQUEST_ID], request.META[TRACEPARENT])


def key_of(request: Request, body: Any) -> Idempotency | None:
    """Raises BadKey."""
    given = request.headers.get("Idempotency-Key")
    return None if given is None else idempotency.read(given, "POST", request.path, body)


def refuse_unreadable_deadline(request: Request) -> None:
    """Also of a request whose key is known, which no deadline that it names makes another. Raises Problem (400)."""
    _seconds_of(request.headers.get("X-Deadline-Ms"))


def asked_job(body: Any, origin: Origin, remaining_ms: str | None, key: Idempotency | None) -> AskedJob:
    """A body of POST /jobs, and X-Deadline-Ms if it was sent. Raises InvalidJob, and Problem (400) for an X-Deadline-Ms that is none."""
    said = asking.form(body)
    return asking.asked(
        said,
        client=origin.client.name,
        deadline_seconds=remaining_seconds(said.deadline_seconds, remaining_ms),
        deadline_at=said.deadline_at,
        idempotency=key,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
    )


def remaining_seconds(deadline_seconds: float | None, remaining_ms: str | None) -> float | None:
    """Of the two relative deadlines the earlier (P9); `deadline_at` joins in the database, which has the clock. Raises Problem (400)."""
    given = (deadline_seconds, _seconds_of(remaining_ms))
    return min(
        (max(0.0, seconds) for seconds in given if seconds is not None), default=None
    )  # past is past, however long


def _seconds_of(remaining_ms: str | None) -> float | None:
    """X-Deadline-Ms: what remains of the caller's own time, in whole milliseconds."""
    if remaining_ms is None:
        return None
    if not re.fullmatch(r"[0-9]{1,13}", remaining_ms):
        raise Problem("bad_request", "X-Deadline-Ms must be the remaining milliseconds, a whole number.")
    return min(int(remaining_ms) / 1000, LONGEST_DEADLINE_SECONDS)
