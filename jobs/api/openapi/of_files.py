"""Files: what callers send for jobs to read, and what jobs leave for them."""

from jobs.api.openapi import examples, shapes
from jobs.api.openapi.of_jobs import ONE_JOB
from jobs.api.openapi.parts import ANY_TYPE, BYTES, FILE, AnswerType, Operation
from jobs.keys import READ, SUBMIT

UPLOADS, ONE_UPLOAD = "/api/v1/uploads", "/api/v1/uploads/{upload_id}"

_A_FILE = {
    "ETag.file": True,
    "Accept-Ranges": True,
    "Cache-Control.file": True,
    "Content-Disposition": True,
    "Content-Security-Policy": True,
}

OPERATIONS = (
    Operation(
        "POST",
        UPLOADS,
        "upload",
        "Send a file",
        tag="Files",
        scope=SUBMIT,
        description=(
            "The body is the file itself, of any Content-Type but a form's, and may be chunked. Its id then stands in the params of a type that asks for a file. "
            "It is kept for its time, and for as long as a job that has not ended names it."
        ),
        headers=("Idempotency-Key", "Content-Digest"),
        body=FILE,
        body_media=BYTES,
        body_examples={"a table": "n,square\n12,144\n"},
        answers=(
            AnswerType(201, "It is kept.", shapes.Upload, {"a table": examples.UPLOAD}, {"Location": True}),
            AnswerType(
                200,
                "It was kept before, under the same key.",
                shapes.Upload,
                {"a table": examples.UPLOAD},
                {"Location": True, "Idempotency-Replayed": True},
            ),
        ),
        problems=(
            "digest_mismatch",
            "unsupported_media_type",
            "idempotency_mismatch",
            "client_suspended",
            "uploads_full",
            "too_many_transfers",
        ),
    ),
    Operation(
        "GET",
        ONE_UPLOAD,
        "readUpload",
        "Read about an upload",
        tag="Files",
        scope=SUBMIT,
        answers=(AnswerType(200, "The upload.", shapes.Upload, {"a table": examples.UPLOAD}),),
        problems=("not_found",),
    ),
    Operation(
        "DELETE",
        ONE_UPLOAD,
        "deleteUpload",
        "Delete an upload",
        tag="Files",
        scope=SUBMIT,
        description=(
            "It is gone at once: nothing can be read about it, no new job may name it, and it counts no more for what its client keeps. "
            "A job whose submit had seen it before is admitted all the same, and finds it; the file is removed once no such job is left, a minute later at the earliest."
        ),
        answers=(AnswerType(204, "It is gone."),),
        problems=("not_found", "upload_in_use"),
    ),
    Operation(
        "GET",
        f"{ONE_JOB}/artifacts/{{name}}",
        "readArtifact",
        "Read a file that a job left",
        tag="Files",
        scope=READ,
        description="Of the Content-Type that its job gave it, which may be any, as an attachment.",
        headers=("If-Match", "If-None-Match", "Range", "If-Range"),
        answers=(
            AnswerType(
                200, "The file.", FILE, {"a table": "n,square\n12,144\n"}, _A_FILE, media=BYTES, or_media=ANY_TYPE
            ),
            AnswerType(
                206,
                "One range of it.",
                FILE,
                {"six bytes": "12,144"},
                {**_A_FILE, "Content-Range": True},
                media=BYTES,
                or_media=ANY_TYPE,
            ),
            AnswerType(304, "The caller has it.", headers={"ETag.file": True, "Cache-Control.file": True}),
        ),
        problems=(
            *("not_found", "not_finished", "result_gone", "precondition_failed", "range_not_satisfiable"),
            "too_many_transfers",
        ),
    ),
)
