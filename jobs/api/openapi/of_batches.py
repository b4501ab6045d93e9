"""Submit many jobs at once, read what became of them, and cancel them."""

from jobs.api.openapi import examples, shapes
from jobs.api.openapi.parts import AnswerType, Operation
from jobs.keys import CANCEL, READ, SUBMIT

BATCHES, ONE_BATCH = "/api/v1/batches", "/api/v1/batches/{batch_id}"

_RATE = {"RateLimit": False, "RateLimit-Policy": False}

OPERATIONS = (
    Operation(
        "POST",
        BATCHES,
        "submitBatch",
        "Submit many jobs at once",
        tag="Batches",
        scope=SUBMIT,
        description=(
            "All are admitted or none, unless `atomic` is false: then each is by itself. At the deadline every job that has not ended is "
            "cancelled, and the results never change after. A refused batch leaves nothing behind."
        ),
        headers=("Idempotency-Key", "Prefer", "X-Deadline-Ms", "traceparent", "X-Weighbridge-Job"),
        body="SubmitBatch",
        answers=(
            AnswerType(
                202,
                "Admitted. With a key that was used before: the batch of the first request, as it is now.",
                shapes.SubmittedBatch,
                {"all of it": examples.RUNNING_BATCH, "some of it": examples.ADMITTED_IN_PART},
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
                "The caller waited, and the results are final.",
                shapes.SubmittedBatch,
                {"cut off by its deadline": examples.CUT_OFF_BATCH},
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
            "batch_too_large",
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
            "none_admitted",
        ),
    ),
    Operation(
        "GET",
        ONE_BATCH,
        "readBatch",
        "Read a batch, or wait for its results",
        tag="Batches",
        scope=READ,
        headers=("Prefer", "X-Weighbridge-Job"),
        answers=(
            AnswerType(
                200,
                "The batch as it is.",
                shapes.Batch,
                {"running": examples.RUNNING_BATCH, "cut off by its deadline": examples.CUT_OFF_BATCH},
                {"Retry-After": False, "Preference-Applied": False, "Vary": False},
            ),
        ),
        problems=("not_found", "would_deadlock"),
    ),
    Operation(
        "DELETE",
        ONE_BATCH,
        "cancelBatch",
        "Cancel what has not ended of a batch",
        tag="Batches",
        scope=CANCEL,
        description="Its results stay as they are then. Asked again, or of a batch that is finished, it changes nothing.",
        answers=(AnswerType(200, "The batch as it stays.", shapes.Batch, {"cancelled": examples.CANCELLED_BATCH}),),
        problems=("not_found",),
    ),
)
