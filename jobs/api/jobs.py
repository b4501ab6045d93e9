"""Submit, list, read, wait for and cancel jobs: parse, call, render. What is true is decided elsewhere."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import entrance, lifecycle, listing, queries, waits
from jobs.admission import Admitted, Rejected, Replayed
from jobs.api import conditions, pages, refused, serializers, submits, waiting
from jobs.api.bodies import json_of
from jobs.api.errors import Problem, changing_something
from jobs.api.view import POLL_AFTER_SECONDS, View, caller_of, may_read, vary, when_to_ask
from jobs.api.waiting import Hold
from jobs.door import asking
from jobs.door.idempotency import Idempotency
from jobs.door.submission import Submission
from jobs.entrance import RateLimited
from jobs.keys import CANCEL, READ, SUBMIT
from jobs.models import Job
from jobs.row_locks import PATIENCE_SECONDS, not_waiting
from jobs.states import State
from jobs.waits import Waiting


class Jobs(View):
    scopes = {"GET": READ, "POST": SUBMIT}

    def get(self, request: Request) -> Response:
        asked = pages.asked_page(request.query_params)
        lifecycle.expire(client_id=caller_of(request).pk)  # first, so that a filter by state sees stored truths (P2)
        found = listing.page(caller_of(request).pk, asked.filters, asked.before, asked.size)
        jobs = [serializers.summary(job) for job in found.jobs]
        return Response(pages.shown(found, jobs, request.query_params, request.path))

    def post(self, request: Request) -> Response:
        if (hold := waiting.waited(request)) is not None:
            return _after_the_wait(request, hold)
        body = json_of(request)
        submits.refuse_unreadable_deadline(request)
        key = submits.key_of(request, body)
        entered = entrance.come_in(
            caller_of(request), key, lambda: _submission(request, body, key), admitting=changing_something()
        )
        headers = {} if entered.rate is None else refused.rate_headers(entered.rate)
        match entered.answer:
            case Rejected() as rejected:
                raise refused.job(rejected)
            case RateLimited() if entered.rate is not None:
                raise refused.rate_limited(entered.rate)
            case Replayed(job):
                return _accepted_or_held(
                    request, job, {**headers, "Idempotency-Replayed": "true"}, new=False, keyed=True
                )
            case Admitted(job) as admitted:
                place = waits.at_admission(admitted)
                return _accepted_or_held(request, job, headers, new=True, keyed=key is not None, place=place)
        raise AssertionError("nobody is held back by a rate that was not counted")


def _submission(request: Request, body: Any, key: Idempotency | None) -> Submission:
    asked = submits.asked_job(body, submits.origin_of(request), request.headers.get("X-Deadline-Ms"), key)
    submission = asking.submission(asked, caller_of(request))
    waiting.refuse_deadlock(request, submission.cost_class.name)
    return submission


class Changes(View):
    scopes = {"GET": READ}

    def get(self, request: Request) -> Response:
        after, size = pages.asked_changes(request.query_params)
        lifecycle.expire(client_id=caller_of(request).pk)
        found = listing.ended_since(caller_of(request).pk, after, size)
        jobs = [serializers.summary(job) for job in found]
        return Response(pages.shown_changes(found, jobs, request.query_params, request.path))


class OneJob(View):
    scopes = {"GET": READ, "DELETE": CANCEL}

    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        job, hold = _as_it_is(request, job_id), waiting.waited(request)
        tag = conditions.etag(serializers.job(job))
        conditions.must_match(request.headers, tag)
        headers = {"ETag": tag, **serializers.server_timing(job), **_when_to_ask(job), **vary(request)}
        if hold is not None or (waiting.asked_seconds(request.headers) and State(job.state).terminal):
            headers |= waiting.applied(waiting.asked_seconds(request.headers))
        has_it = conditions.has_it(request.headers, tag)
        if has_it:
            answer: HttpResponseBase = conditions.not_modified(headers)
        else:
            answer = Response(serializers.job(job, waits.of(job)), headers=headers)
        if hold is None:
            waiting.hold(request, waiting.end_of(job), answer)
        return answer

    def delete(self, request: Request, job_id: UUID) -> Response:
        job = _as_it_is(request, job_id)
        if "If-Match" in request.headers:
            conditions.must_match(request.headers, conditions.etag(serializers.job(job)))
        with changing_something():
            with not_waiting(PATIENCE_SECONDS):
                done = lifecycle.cancel(job.pk)
            job = queries.job_of(caller_of(request).pk, job_id)
        if done is None and job.state != State.CANCELLED:
            raise Problem.not_cancellable(_as_allowed(request, job))
        # By the job that is shown: it may have ended since it was asked to.
        return Response(_as_allowed(request, job), status=200 if job.state == State.CANCELLED else 202)


def _as_it_is(request: Request, job_id: UUID) -> Job:
    """Expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    job = queries.job_of(caller_of(request).pk, job_id)
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        return queries.job_of(caller_of(request).pk, job_id)
    return job


def _as_allowed(request: Request, job: Job, place: Waiting | None = None) -> dict[str, Any]:
    """`place`: where it stands, if that is known already."""
    return serializers.job(job, place or waits.told(job)) if may_read(request) else serializers.without_result(job)


def _accepted_or_held(
    request: Request, job: Job, headers: dict[str, str], *, new: bool, keyed: bool, place: Waiting | None = None
) -> Response:
    """202, or, for who waits, what becomes of the job until then."""
    seconds = waiting.asked_seconds(request.headers)
    if seconds and State(job.state).terminal:
        return _finished(request, job, seconds, headers)
    answer = _accepted(request, job, headers | vary(request), place)
    waiting.hold(
        request, waiting.end_of(job), answer, cancel_if_left=not keyed, deadlock_ruled_out=new, headers=headers
    )
    return answer


def _after_the_wait(request: Request, hold: Hold) -> Response:
    job, headers = _as_it_is(request, hold.subject.id), dict(hold.headers)
    if State(job.state).terminal:
        return _finished(request, job, hold.asked, headers)
    return _accepted(request, job, headers | waiting.applied(hold.asked))


def _finished(request: Request, job: Job, seconds: int, headers: dict[str, str]) -> Response:
    told = {**headers, "Location": serializers.address(job), **waiting.applied(seconds)}
    return Response(_as_allowed(request, job), headers=told)


def _accepted(request: Request, job: Job, headers: dict[str, str], place: Waiting | None = None) -> Response:
    told = {"Location": serializers.address(job), **_when_to_ask(job), **headers}
    return Response(_as_allowed(request, job, place), status=202, headers=told)


def _when_to_ask(job: Job) -> dict[str, str]:
    return when_to_ask(State(job.state).terminal)


class Result(View):
    scopes = {"GET": READ}

    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        job = _as_it_is(request, job_id)
        if not State(job.state).terminal:
            sentence = f"The job is {job.state}; its result comes when it has succeeded."
            raise Problem("not_finished", sentence, retry_after=POLL_AFTER_SECONDS)
        if job.state != State.SUCCEEDED:
            raise Problem("no_result", f"The job is {job.state}; only one that succeeded has a result.")
        if job.result_expired:
            raise Problem("result_gone", "The result was kept for its time, and is gone; the job is still shown.")
        # Not DRF's Response, which makes nothing of null.
        return HttpResponse(json.dumps(job.result, ensure_ascii=False), content_type="application/json")
