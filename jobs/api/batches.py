"""POST, GET and DELETE of batches: parse, call, render."""

from typing import Any, cast
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import batches, telemetry
from jobs.api import batch_bodies, batch_waiting, waiting
from jobs.api.bodies import json_of
from jobs.api.errors import Problem, changing_something, rate_headers
from jobs.api.requests import REQUEST_ID, TRACEPARENT
from jobs.api.serializers import Origin, batch_address
from jobs.api.views import POLL_AFTER_SECONDS, View
from jobs.batches import BatchAdmitted, BatchRejected, BatchReplayed, Seen
from jobs.door import idempotency, quotas
from jobs.door.quotas import Rate
from jobs.keys import CANCEL, READ, SUBMIT
from jobs.models import ApiClient
from jobs.row_locks import RowHeld


class Batches(View):
    scopes = {"POST": SUBMIT}

    def post(self, request: Request) -> Response:
        if (hold := batch_waiting.waited(request)) is not None:
            return _after_the_wait(request, hold)
        body, key = json_of(request), None
        if "Idempotency-Key" in request.headers:
            key = idempotency.read(request.headers["Idempotency-Key"], "POST", request.path, body)
            if (known := idempotency.batch_under(_caller(request).pk, key)) is not None:
                return _replayed(request, known)
        rate = _counted(request, body)
        origin = Origin(_caller(request), request.META[REQUEST_ID], request.META[TRACEPARENT])
        deadline, passed = request.headers.get("X-Deadline-Ms"), None if rate is None else rate.passed
        submission = batch_bodies.batch(body, origin, deadline, key, passed)
        waiting.refuse_deadlock(request, *{item.cost_class.name for item in submission.items.values()})
        with changing_something():
            answer = batches.submit(submission)
        headers = {} if rate is None else rate_headers(rate)
        match answer:
            case BatchRejected():
                raise batch_bodies.refused(answer)
            case BatchReplayed(batch_id):
                return _replayed(request, batch_id, **headers)
            case BatchAdmitted(batch_id, free):
                members = {} if submission.atomic else {"room": dict(free)}
                return _accepted_or_held(
                    request, _seen(request, batch_id), members, headers, new=True, keyed=key is not None
                )


class OneBatch(View):
    scopes = {"GET": READ, "DELETE": CANCEL}

    def get(self, request: Request, batch_id: UUID) -> Response:
        seen, hold = _seen(request, batch_id), batch_waiting.waited(request)
        headers = _vary(request) | _when_to_ask(seen)
        if hold is not None or (seen.sealed and waiting.asked_seconds(request.headers)):
            headers |= waiting.applied(waiting.asked_seconds(request.headers))
        answer = Response(_shown(request, seen), headers=headers)
        if hold is None:
            batch_waiting.hold(request, seen, answer)
        return answer

    def delete(self, request: Request, batch_id: UUID) -> Response:
        if not _seen(request, batch_id).sealed:
            _cancel(batch_id)
        return Response(_shown(request, _seen(request, batch_id)))


def _caller(request: Request) -> ApiClient:
    """Who BearerKey let in."""
    return cast(ApiClient, request.user)


def _cancel(batch_id: UUID) -> None:
    try:
        with changing_something():
            batches.cancel(batch_id)
    except RowHeld:
        raise Problem.held("batch") from None


def _counted(request: Request, body: Any) -> Rate | None:
    """Every job of the batch counts. Raises Problem when none may pass, or never all."""
    jobs, atomic = batch_bodies.asked_for(body)
    client = _caller(request)
    for most, what in (
        (client.submits_per_minute, "submit {} jobs a minute"),
        (client.max_jobs, "have {} jobs at once"),
    ):
        if atomic and most is not None and jobs > most:
            raise batch_bodies.too_large(f"This client may {what.format(most)}; these are {jobs}.")
    rate = quotas.count_submit(client, jobs, some=not atomic)
    if rate is not None and not rate.allowed:
        telemetry.RATE_LIMITED.inc()
        raise Problem.rate_limited(rate)
    return rate


def _seen(request: Request, batch_id: UUID) -> Seen:
    return batches.as_it_is(_caller(request).pk, batch_id)


def _shown(request: Request, seen: Seen, **members: Any) -> dict[str, Any]:
    credentials: Any = request.auth
    return {**batch_bodies.shown(seen, READ in credentials.scopes), **members}


def _replayed(request: Request, batch_id: UUID, **headers: str) -> Response:
    seen = _seen(request, batch_id)
    return _accepted_or_held(request, seen, {}, {**headers, "Idempotency-Replayed": "true"}, new=False, keyed=True)


def _accepted_or_held(
    request: Request, seen: Seen, members: dict[str, Any], headers: dict[str, str], *, new: bool, keyed: bool
) -> Response:
    """202, or, for who waits, what becomes of the batch until then."""
    seconds = waiting.asked_seconds(request.headers)
    if seconds and seen.sealed:
        return _finished(request, seen, seconds, members, headers)
    answer = _accepted(request, seen, members, headers | _vary(request))
    batch_waiting.hold(
        request,
        seen,
        answer,
        cancel_if_left=not keyed,
        deadlock_ruled_out=new,
        headers=headers,
        members=members,
    )
    return answer


def _after_the_wait(request: Request, hold: batch_waiting.BatchHold) -> Response:
    seen, headers, members = _seen(request, hold.waiter.job_id), dict(hold.headers), dict(hold.members)
    if seen.sealed:
        return _finished(request, seen, hold.asked, members, headers)
    return _accepted(request, seen, members, headers | waiting.applied(hold.asked))


def _finished(request: Request, seen: Seen, seconds: int, members: dict[str, Any], headers: dict[str, str]) -> Response:
    told = {**headers, "Location": batch_address(seen.batch.pk), **waiting.applied(seconds)}
    return Response(_shown(request, seen, **members), headers=told)


def _accepted(request: Request, seen: Seen, members: dict[str, Any], headers: dict[str, str]) -> Response:
    told = {"Location": batch_address(seen.batch.pk), **_when_to_ask(seen), **headers}
    return Response(_shown(request, seen, **members), status=202, headers=told)


def _vary(request: Request) -> dict[str, str]:
    return {"Vary": "Prefer"} if "Prefer" in request.headers else {}


def _when_to_ask(seen: Seen) -> dict[str, str]:
    return {} if seen.sealed else {"Retry-After": POLL_AFTER_SECONDS}
