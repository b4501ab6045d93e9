"""The HTTP API: parse, call, render. What is true is decided elsewhere."""

import json
from typing import Any, cast
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import admission, classes, lifecycle, listing, queries, registry, telemetry, uploads
from jobs.api import caller, conditions, pages, serializers, waiting
from jobs.api.bodies import json_of
from jobs.api.errors import Problem, changing_something, rate_headers
from jobs.api.requests import REQUEST_ID, TRACEPARENT
from jobs.api.serializers import Origin
from jobs.door import idempotency, quotas
from jobs.keys import CANCEL, READ, SUBMIT
from jobs.models import ApiClient, Job
from jobs.registry import JobType
from jobs.row_locks import PATIENCE_SECONDS, not_waiting
from jobs.states import State

POLL_AFTER_SECONDS = "1"  # told to whoever asks for a job that has not ended


class View(APIView):
    """A view of this API; `scopes` names what a key needs for each method."""

    http_method_names = ["get", "head", "post", "delete"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        pages.refuse_unreadable(request.META["QUERY_STRING"])


class Jobs(View):
    scopes = {"GET": READ, "POST": SUBMIT}

    def get(self, request: Request) -> Response:
        asked = pages.asked(request.query_params)
        lifecycle.expire(client_id=_caller(request).pk)  # first, so that a filter by state sees stored truths (P2)
        found = listing.page(_caller(request).pk, asked.filters, asked.before, asked.size)
        jobs = [serializers.summary(job) for job in found.jobs]
        return Response(pages.shown(found, jobs, request.query_params, request.path))

    def post(self, request: Request) -> Response:
        if (hold := waiting.waited(request)) is not None:
            return _after_the_wait(request, hold)
        body, key = json_of(request), None
        if "Idempotency-Key" in request.headers:
            key = idempotency.read(request.headers["Idempotency-Key"], "POST", request.path, body)
            if (known := idempotency.job_under(_caller(request).pk, key)) is not None:
                return _replayed(request, known)
        rate = quotas.count_submit(_caller(request))
        if rate is not None and not rate.allowed:
            telemetry.RATE_LIMITED.inc()
            raise Problem.rate_limited(rate)
        origin = Origin(_caller(request), request.META[REQUEST_ID], request.META[TRACEPARENT])
        submission = serializers.submission(body, origin, request.headers.get("X-Deadline-Ms"), key)
        waiting.refuse_deadlock(request, submission.cost_class.name)
        with changing_something():
            answer = admission.submit(submission)
        headers = {} if rate is None else rate_headers(rate)
        match answer:
            case admission.Rejected() as refused:
                raise Problem.refused(refused)
            case admission.Replayed(job):
                return _replayed(request, job, **headers)
            case admission.Admitted(job):
                return _accepted_or_held(request, job, new=True, keyed=key is not None, **headers)


class Changes(View):
    scopes = {"GET": READ}

    def get(self, request: Request) -> Response:
        after, size = pages.asked_changes(request.query_params)
        lifecycle.expire(client_id=_caller(request).pk)
        found = listing.ended_since(_caller(request).pk, after, size)
        jobs = [serializers.summary(job) for job in found]
        return Response(pages.shown_changes(found, jobs, request.query_params, request.path))


class OneJob(View):
    scopes = {"GET": READ, "DELETE": CANCEL}

    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        job, hold = _as_it_is(request, job_id), waiting.waited(request)
        shown = serializers.job(job)
        tag = conditions.etag(shown)
        conditions.must_match(request.headers, tag)
        headers = {"ETag": tag, **serializers.server_timing(job), **_when_to_ask(job), **_vary(request)}
        if hold is not None or (waiting.asked_seconds(request.headers) and State(job.state).terminal):
            headers |= waiting.applied(waiting.asked_seconds(request.headers))
        has_it = conditions.has_it(request.headers, tag)
        answer = conditions.not_modified(headers) if has_it else Response(shown, headers=headers)
        if hold is None:
            waiting.hold(request, job, answer)
        return answer

    def delete(self, request: Request, job_id: UUID) -> Response:
        job = _as_it_is(request, job_id)
        if "If-Match" in request.headers:
            conditions.must_match(request.headers, conditions.etag(serializers.job(job)))
        with changing_something():
            with not_waiting(PATIENCE_SECONDS):
                done = lifecycle.cancel(job.pk)
            job = queries.job_of(_caller(request).pk, job_id)
        if done is None and job.state != State.CANCELLED:
            raise Problem.not_cancellable(_as_allowed(request, job))
        # By the job that is shown: it may have ended since it was asked to.
        return Response(_as_allowed(request, job), status=200 if job.state == State.CANCELLED else 202)


def _caller(request: Request) -> ApiClient:
    """Who BearerKey let in."""
    return cast(ApiClient, request.user)


def _as_it_is(request: Request, job_id: UUID) -> Job:
    return _expired_if_due(request, queries.job_of(_caller(request).pk, job_id))


def _expired_if_due(request: Request, job: Job) -> Job:
    """The job, expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        return queries.job_of(_caller(request).pk, job.pk)
    return job


def _as_allowed(request: Request, job: Job) -> dict[str, Any]:
    """Who may submit or cancel, but not read, is not told results."""
    credentials: Any = request.auth
    return (
        serializers.job(job)
        if READ in credentials.scopes
        else {**serializers.summary(job), "result": None, "artifacts": []}
    )


def _accepted(request: Request, job: Job, **headers: str) -> Response:
    shown = _as_allowed(request, job)
    return Response(shown, status=202, headers={"Location": shown["links"]["self"], **_when_to_ask(job), **headers})


def _replayed(request: Request, job: Job, **headers: str) -> Response:
    job = _expired_if_due(request, job)
    return _accepted_or_held(request, job, new=False, keyed=True, **headers, **{"Idempotency-Replayed": "true"})


def _accepted_or_held(request: Request, job: Job, *, new: bool, keyed: bool, **headers: str) -> Response:
    """202, or, for who waits, what becomes of the job until then."""
    seconds = waiting.asked_seconds(request.headers)
    if seconds and State(job.state).terminal:
        return Response(_as_allowed(request, job), headers={**headers, **_place(job), **waiting.applied(seconds)})
    answer = _accepted(request, job, **_vary(request), **headers)
    waiting.hold(request, job, answer, cancel_if_left=not keyed, deadlock_ruled_out=new, headers=headers)
    return answer


def _after_the_wait(request: Request, hold: waiting.JobHold) -> Response:
    job = _as_it_is(request, hold.waiter.job_id)
    headers = {**hold.headers, **waiting.applied(hold.seconds)}
    if State(job.state).terminal:
        return Response(_as_allowed(request, job), headers={**headers, **_place(job)})
    return _accepted(request, job, **headers)


def _vary(request: Request) -> dict[str, str]:
    return {"Vary": "Prefer"} if "Prefer" in request.headers else {}


def _place(job: Job) -> dict[str, str]:
    return {"Location": serializers.address(job)}


def _when_to_ask(job: Job) -> dict[str, str]:
    return {} if State(job.state).terminal else {"Retry-After": POLL_AFTER_SECONDS}


class Result(View):
    scopes = {"GET": READ}

    def get(self, request: Request, job_id: UUID) -> HttpResponseBase:
        job = _as_it_is(request, job_id)
        if not State(job.state).terminal:
            sentence = f"The job is {job.state}; its result comes when it has succeeded."
            raise Problem(409, "not_finished", sentence, retry_after=int(POLL_AFTER_SECONDS))
        if job.state != State.SUCCEEDED:
            raise Problem(409, "no_result", f"The job is {job.state}; only one that succeeded has a result.")
        if job.result_expired:
            raise Problem(410, "result_gone", "The result was kept for its time, and is gone; the job is still shown.")
        # Not DRF's Response, which makes nothing of null.
        return HttpResponse(json.dumps(job.result, ensure_ascii=False), content_type="application/json")


class Client(View):
    scopes = {"GET": READ}

    def get(self, request: Request) -> Response:
        credentials: Any = request.auth
        client = _caller(request)
        use = caller.Use(queries.live_jobs_of(client.pk), uploads.kept_bytes(client))
        return Response(caller.shown(client, credentials.scopes, use))


class Classes(View):
    scopes = {"GET": READ}

    def get(self, request: Request) -> Response:
        return Response({"classes": [serializers.cost_class(view) for view in queries.class_views()]})


class OneClass(View):
    scopes = {"GET": READ}

    def get(self, request: Request, name: str) -> Response:
        if name not in classes.declared():
            raise Problem.not_found("There is no cost class of that name.")
        return Response(serializers.cost_class(queries.class_view(name)))


class Types(View):
    scopes = {"GET": READ}

    def get(self, request: Request) -> Response:
        return Response({"types": [serializers.job_type(job_type) for job_type in registry.all_types()]})


class OneType(View):
    scopes = {"GET": READ}

    def get(self, request: Request, name: str) -> Response:
        return Response(serializers.job_type(_known(name)))


def _known(name: str) -> JobType:
    job_type = registry.get(name)
    if job_type is None:
        raise Problem.not_found("There is no job type of that name.")
    return job_type
