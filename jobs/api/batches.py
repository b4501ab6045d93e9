"""POST, GET and DELETE of batches: parse, call, render."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from jobs import batches, entrance
from jobs.api import batch_bodies, refused, submits, waiting
from jobs.api.bodies import json_of
from jobs.api.errors import Problem, changing_something
from jobs.api.serializers import batch_address
from jobs.api.view import View, caller_of, may_read, vary, when_to_ask
from jobs.api.waiting import Hold
from jobs.batches import BatchAdmitted, BatchRejected, BatchReplayed, BatchSubmission, Seen
from jobs.door.idempotency import Idempotency
from jobs.entrance import NeverTogether, RateLimited
from jobs.keys import CANCEL, READ, SUBMIT
from jobs.row_locks import RowHeld


class Batches(View):
    scopes = {"POST": SUBMIT}

    def post(self, request: Request) -> Response:
        if (hold := waiting.waited(request)) is not None:
            return _after_the_wait(request, hold)
        body = json_of(request)
        submits.refuse_unreadable_deadline(request)
        key, (jobs, atomic) = submits.key_of(request, body), batch_bodies.asked_for(body)
        entered = entrance.come_in_together(
            caller_of(request),
            key,
            jobs,
            lambda passed: _submission(request, body, key, passed),
            atomic=atomic,
            admitting=changing_something(),
        )
        headers = {} if entered.rate is None else refused.rate_headers(entered.rate)
        match entered.answer:
            case BatchRejected() as rejected:
                raise refused.batch(rejected)
            case NeverTogether() as never:
                raise refused.never_together(never)
            case RateLimited() if entered.rate is not None:
                raise refused.rate_limited(entered.rate)
            case BatchReplayed(batch_id):
                return _replayed(request, batch_id, **headers)
            case BatchAdmitted(batch_id, free):
                members = {} if atomic else {"room": dict(free)}
                return _accepted_or_held(
                    request, _seen(request, batch_id), members, headers, new=True, keyed=key is not None
                )
        raise AssertionError("nobody is held back by a rate that was not counted")


def _submission(request: Request, body: Any, key: Idempotency | None, passed: int | None) -> BatchSubmission:
    deadline = request.headers.get("X-Deadline-Ms")
    submission = batch_bodies.batch(body, submits.origin_of(request), deadline, key, passed)
    waiting.refuse_deadlock(request, *{item.cost_class.name for item in submission.items.values()})
    return submission


class OneBatch(View):
    scopes = {"GET": READ, "DELETE": CANCEL}

    def get(self, request: Request, batch_id: UUID) -> Response:
        seen, hold = _seen(request, batch_id), waiting.waited(request)
        headers = vary(request) | when_to_ask(seen.sealed)
        if hold is not None or (seen.sealed and waiting.asked_seconds(request.headers)):
            headers |= waiting.applied(waiting.asked_seconds(request.headers))
        answer = Response(_shown(request, seen), headers=headers)
        if hold is None:
            waiting.hold(request, waiting.seal_of(seen), answer)
        return answer

    def delete(self, request: Request, batch_id: UUID) -> Response:
        if not _seen(request, batch_id).sealed:
            _cancel(batch_id)
        return Response(_shown(request, _seen(request, batch_id)))


def _cancel(batch_id: UUID) -> None:
    try:
        with changing_something():
            batches.cancel(batch_id)
    except RowHeld:
        raise Problem.held("batch") from None


def _seen(request: Request, batch_id: UUID) -> Seen:
    return batches.as_it_is(caller_of(request).pk, batch_id)


def _shown(request: Request, seen: Seen, **members: Any) -> dict[str, Any]:
    return {**batch_bodies.shown(seen, may_read(request)), **members}


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
    answer = _accepted(request, seen, members, headers | vary(request))
    waiting.hold(
        request,
        waiting.seal_of(seen),
        answer,
        cancel_if_left=not keyed,
        deadlock_ruled_out=new,
        headers=headers,
        members=members,
    )
    return answer


def _after_the_wait(request: Request, hold: Hold) -> Response:
    seen, headers, members = _seen(request, hold.subject.id), dict(hold.headers), dict(hold.members)
    if seen.sealed:
        return _finished(request, seen, hold.asked, members, headers)
    return _accepted(request, seen, members, headers | waiting.applied(hold.asked))


def _finished(request: Request, seen: Seen, seconds: int, members: dict[str, Any], headers: dict[str, str]) -> Response:
    told = {**headers, "Location": batch_address(seen.batch.pk), **waiting.applied(seconds)}
    return Response(_shown(request, seen, **members), headers=told)


def _accepted(request: Request, seen: Seen, members: dict[str, Any], headers: dict[str, str]) -> Response:
    told = {"Location": batch_address(seen.batch.pk), **when_to_ask(seen.sealed), **headers}
    return Response(_shown(request, seen, **members), status=202, headers=told)
