"""Submit, read, wait for, list and cancel jobs."""

from jobs.api.openapi import examples, shapes
from jobs.api.openapi.parts import AnswerType, Operation
from jobs.api.pages import ChangesQuery, ListQuery
from jobs.keys import CANCEL, READ, SUBMIT

JOBS, ONE_JOB = "/api/v1/jobs", "/api/v1/jobs/{job_id}"

_RATE = {"RateLimit": False, "RateLimit-Policy": False}

OPERATIONS = (
    Operation(
        "POST",
        JOBS,
        "submit",
        "Submit a job",
        tag="Jobs",
        scope=SUBMIT,
        description=(
            "Only `type` is required. A refused job never runs and leaves nothing behind. To a key without `jobs:read` the answer bears no result and no "
            "artifacts, also after a `Prefer: wait`: `result` is null then whatever the job returned."
        ),
        headers=("Idempotency-Key", "Prefer", "X-Deadline-Ms", "traceparent", "X-Weighbridge-Job"),
        body="Submit",
        answers=(
            AnswerType(
                202,
                "Admitted. With a key that was used before: the job of the first request, as it is now.",
                shapes.Job,
                {"queued": examples.QUEUED},
                {
                    "Location": True,
                    "Retry-After": False,
                    "Idempotency-Replayed": False,
                    "Preference-Applied": False,
                    "Vary": False,
                    **_RATE,
                },
            ),
            AnswerType(
                200,
                "The caller waited, and the job has ended.",
                shapes.Job,
                {"succeeded": examples.SUCCEEDED, "failed": examples.FAILED},
                {"Location": True, "Preference-Applied": True, "Vary": True, "Idempotency-Replayed": False, **_RATE},
            ),
        ),
        problems=(
            "unsupported_media_type",
            "idempotency_in_flight",
            "idempotency_mismatch",
            "invalid_request",
            "invalid_params",
            "unknown_type",
            "limit_out_of_range",
            "cost_too_large",
            "deadline_infeasible",
            "would_deadlock",
            "client_suspended",
            "rate_limited",
            "too_many_jobs",
            "queue_full",
            "share_full",
            "class_draining",
            "type_refused",
            "type_unavailable",
            "deadline_unreachable",
        ),
    ),
    Operation(
        "GET",
        JOBS,
        "listJobs",
        "List your jobs",
        tag="Jobs",
        scope=READ,
        description="Newest first. Go on with `next_cursor` until it is null.",
        query=ListQuery,
        answers=(
            AnswerType(
                200,
                "A page.",
                shapes.JobPage,
                {
                    "the last page": {"jobs": [examples.QUEUED_SUMMARY], "next_cursor": None, "links": {"next": None}},
                    "a page before it": {
                        "jobs": [examples.SUCCEEDED_SUMMARY],
                        "next_cursor": examples.CURSOR,
                        "links": {"next": f"{JOBS}?cursor={examples.CURSOR}"},
                    },
                },
            ),
        ),
        problems=("invalid_request",),
    ),
    Operation(
        "GET",
        f"{JOBS}/changes",
        "listChanges",
        "Follow the ends of your jobs",
        tag="Jobs",
        scope=READ,
        description="Oldest end first, and resumable: come back with `next_cursor`.",
        query=ChangesQuery,
        answers=(
            AnswerType(
                200,
                "What has ended since.",
                shapes.ChangesPage,
                {
                    "one has": {
                        "jobs": [examples.SUCCEEDED_SUMMARY],
                        "next_cursor": examples.CHANGES_CURSOR,
                        "links": {"next": f"{JOBS}/changes?cursor={examples.CHANGES_CURSOR}"},
                    }
                },
            ),
        ),
        problems=("invalid_request",),
    ),
    Operation(
        "GET",
        ONE_JOB,
        "readJob",
        "Read a job, or wait for its end",
        tag="Jobs",
        scope=READ,
        description="Also a failed job is 200: the request did not fail.",
        headers=("Prefer", "If-None-Match", "If-Match", "X-Weighbridge-Job"),
        answers=(
            AnswerType(
                200,
                "The job as it is.",
                shapes.Job,
                {"running": examples.RUNNING, "succeeded": examples.SUCCEEDED, "failed": examples.FAILED},
                {
                    "ETag": True,
                    "Server-Timing": False,
                    "Retry-After": False,
                    "Preference-Applied": False,
                    "Vary": False,
                },
            ),
            AnswerType(
                304,
                "The caller has this state.",
                headers={
                    "ETag": True,
                    "Server-Timing": False,
                    "Retry-After": False,
                    "Preference-Applied": False,
                    "Vary": False,
                },
            ),
        ),
        problems=("not_found", "precondition_failed", "would_deadlock"),
    ),
    Operation(
        "DELETE",
        ONE_JOB,
        "cancelJob",
        "Cancel a job",
        tag="Jobs",
        scope=CANCEL,
        description=(
            "After a 202 the end is always `cancelled`; asked again, it gives the same instant. To a key without `jobs:read` a job bears no result."
        ),
        headers=("If-Match",),
        answers=(
            AnswerType(200, "It is cancelled.", shapes.Job, {"cancelled": examples.CANCELLED}),
            AnswerType(202, "It runs, and is being ended.", shapes.Job, {"being cancelled": examples.BEING_CANCELLED}),
        ),
        problems=("not_found", "not_cancellable", "precondition_failed"),
    ),
    Operation(
        "GET",
        f"{ONE_JOB}/result",
        "readResult",
        "Read a result alone",
        tag="Jobs",
        scope=READ,
        answers=(AnswerType(200, "What the job returned: any JSON.", {}, {"an object": {"sum": 14}, "nothing": None}),),
        problems=("not_found", "not_finished", "no_result", "result_gone"),
    ),
)
