"""The HTTP API: parse, call, render. What is true is decided elsewhere."""

from typing import cast
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import admission, classes, lifecycle, queries, registry
from jobs.api import serializers
from jobs.api.bodies import json_of
from jobs.api.errors import Problem
from jobs.api.requests import REQUEST_ID
from jobs.keys import CANCEL, READ, SUBMIT
from jobs.models import ApiClient, Job
from jobs.registry import JobType
from jobs.states import State

POLL_AFTER_SECONDS = "1"  # told to whoever asks for a job that has not ended


class View(APIView):
    """A view of this API; `scopes` names what a key needs for each method."""

    http_method_names = ["get", "head", "post", "delete"]


class Jobs(View):
    scopes = {"POST": SUBMIT}

    def post(self, request: Request) -> Response:
        submission = serializers.submission(
            json_of(request), _caller(request), request.META[REQUEST_ID], request.headers.get("X-Deadline-Ms")
        )
        verdict = admission.submit(submission)
        if isinstance(verdict, admission.Rejected):
            raise Problem.refused(verdict)
        job = serializers.job(verdict.job)
        return Response(job, status=202, headers={"Location": job["links"]["self"], "Retry-After": POLL_AFTER_SECONDS})


class OneJob(View):
    scopes = {"GET": READ, "DELETE": CANCEL}

    def get(self, request: Request, job_id: UUID) -> Response:
        return _shown(_as_it_is(request, job_id))

    def delete(self, request: Request, job_id: UUID) -> Response:
        job = _as_it_is(request, job_id)
        done = lifecycle.cancel(job.pk)
        job = queries.job_of(_caller(request).pk, job_id)
        if done is None and job.state != State.CANCELLED:
            raise Problem.not_cancellable(serializers.job(job))
        return Response(serializers.job(job), status=202 if done is State.RUNNING else 200)


def _caller(request: Request) -> ApiClient:
    """Who BearerKey let in."""
    return cast(ApiClient, request.user)


def _as_it_is(request: Request, job_id: UUID) -> Job:
    """The job, expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    job = queries.job_of(_caller(request).pk, job_id)
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        job = queries.job_of(_caller(request).pk, job_id)
    return job


def _shown(job: Job) -> Response:
    headers = {} if State(job.state).terminal else {"Retry-After": POLL_AFTER_SECONDS}
    return Response(serializers.job(job), headers=headers)


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
