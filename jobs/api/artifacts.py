"""GET /jobs/{id}/artifacts/{name}: a file that a job left."""

from typing import BinaryIO, cast
from uuid import UUID

import structlog
from django.http import HttpResponseBase
from rest_framework.request import Request

from jobs import lifecycle, queries
from jobs.api import downloads
from jobs.api.errors import Problem
from jobs.api.view import View
from jobs.files import artifacts, stored_files
from jobs.keys import READ
from jobs.models import ApiClient, Artifact
from jobs.states import State

log = structlog.get_logger(__name__)


class OneArtifact(View):
    scopes = {"GET": READ}

    def get(self, request: Request, job_id: UUID, name: str) -> HttpResponseBase:
        caller = cast(ApiClient, request.user)
        found = _found(caller, job_id, name)
        tag = f'"{found.sha256}"'
        return downloads.unchanged(request.headers, tag) or downloads.answer(
            request.method,
            request.headers,
            _opened(found),
            size_bytes=found.size_bytes,
            tag=tag,
            content_type=found.content_type,
            name=found.name,
            owner=caller.pk,
        )


def _found(caller: ApiClient, job_id: UUID, name: str) -> Artifact:
    job = queries.job_of(caller.pk, job_id)
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        job = queries.job_of(caller.pk, job_id)
    if not State(job.state).terminal:
        raise Problem("not_finished", f"The job is {job.state}; it has files once it has succeeded.", retry_after=1)
    if job.result_expired:
        raise _gone()
    found = artifacts.named(job, name)
    if found is None:
        raise Problem.not_found("The job has no artifact of that name.")
    return found


def _opened(found: Artifact) -> BinaryIO:
    try:
        return stored_files.opened(found.file_name)
    except FileNotFoundError:  # somebody has removed it: its row alone brings nothing
        log.error("artifact_file_missing", artifact_id=str(found.pk))
        raise _gone() from None
    except OSError as error:
        log.error("artifact_not_opened", artifact_id=str(found.pk), error=type(error).__name__)
        raise Problem.no_storage() from error


def _gone() -> Problem:
    return Problem(
        "result_gone", "The files of this job were kept for their time, and are gone; the job is still shown."
    )
