"""Every problem that the API answers with (RFC 9457): its status, what it carries beside the standard members, and an example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field

from jobs.api.codes import CODES
from jobs.api.openapi import examples
from jobs.api.openapi.shapes import Count, ItemFailed, Job, Seconds, Sha256, Shape
from jobs.door.refusals import OF_ITEMS


class NoMembers(Shape):
    pass


class Place(Shape):
    """Where in the request, and why."""

    loc: list[str]
    msg: str


class Errors(Shape):
    errors: list[Place]


class InBatch(Shape):
    errors: Annotated[
        list[Place], Field(default_factory=list, description="Where in the request; of a batch with the item.")
    ]


class LimitBytes(InBatch):
    limit_bytes: Annotated[
        int, Field(description="Absent where the server refuses before it looks at the request.")
    ] = 0


class KeptBytes(Shape):
    limit_bytes: Count


class Digest(Shape):
    sha256: Annotated[Sha256, Field(description="Of what came.")]


class TheJob(Shape):
    job: Job


class TheClass(Shape):
    cost_class: str


class ComesBack(Shape):
    retry_after_seconds: Count


class Depth(TheClass):
    retry_after_seconds: Count
    waiting: Count
    max_waiting: Count
    running: Count
    slots: Count
    room: Annotated[Count, Field(description="Jobs that would be admitted now.")]
    backlog_seconds: Annotated[Seconds, Field(description="Expected work of what waits and runs, over all slots.")]
    max_backlog_seconds: Annotated[Seconds, Field(description="The class takes no more above it.")]


class DepthInBatch(Depth, InBatch):
    pass


class OverShare(DepthInBatch):
    share: Annotated[
        Count,
        Field(
            description="Jobs that the client, or the limit key, may have there while others want some of the class."
        ),
    ]
    share_kept: Annotated[
        int, Field(ge=0, description="Of these, those for requests of the client that were told to come about now.")
    ]
    share_kept_seconds: Annotated[Seconds, Field(description="The work of these.")]


class Resumed(TheClass, InBatch):
    retry_after_seconds: Annotated[Count, Field(description="A guess: an operator resumes it.")]


class Unreachable(DepthInBatch):
    estimated_start_seconds: Annotated[Seconds, Field(description="From now.")]


class CostTooLarge(Errors):
    cost_seconds: Annotated[Seconds, Field(description="By the job type's own measure.")]
    timeout_seconds: Seconds


class NoneAdmitted(Shape):
    """The code is what the first item was refused for that may be admitted later. A class is told of where it was counted."""

    results: dict[str, ItemFailed]
    room: Annotated[dict[str, Count], Field(description="Places that each class has left, by its name.")]
    cost_class: str = ""
    retry_after_seconds: Count = 0
    waiting: Count = 0
    max_waiting: Count = 0
    running: Count = 0
    slots: Count = 0
    backlog_seconds: Seconds = 0
    max_backlog_seconds: Seconds = 0
    estimated_start_seconds: Seconds = 0
    share: Count = 0
    share_kept: Count = 0
    share_kept_seconds: Seconds = 0


class Unavailable(Shape):
    retry_after_seconds: Count = 0
    cost_class: str = ""
    outcome_unknown: Annotated[
        bool, Field(description="The database was lost in the middle: the request may have been carried out or not.")
    ] = False


@dataclass(frozen=True)
class ProblemType:
    """`members` with a default may be absent. `retry_after`: whether it is retryable, and then has that header.

    `codes`: of a refusal that bears one of several, by what it is of; it is retryable or not, as its code is.
    """

    detail: str
    status: int = 0  # the code's own
    retry_after: bool = False  # as its code is retryable
    members: type[BaseModel] = NoMembers
    example: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


_DEPTH = {
    "waiting": 8,
    "max_waiting": 8,
    "running": 2,
    "slots": 2,
    "room": 0,
    "backlog_seconds": 31.5,
    "max_backlog_seconds": 48.0,
}
_SHARE = {"share": 5, "share_kept": 0, "share_kept_seconds": 0.0}
_RATE = ("RateLimit", "RateLimit-Policy")

_TOLD = {
    "batch_too_large": ProblemType(
        'Class heavy can never hold more than 10 jobs at once. Send fewer jobs in a batch, or with "atomic": false.',
    ),
    "bad_request": ProblemType("The body is not valid JSON: expected value at line 1 column 1."),
    "digest_mismatch": ProblemType(
        "The body's SHA-256 is not that of Content-Digest: it came damaged, or is another; nothing was kept.",
        members=Digest,
        example={"sha256": examples.UPLOAD["sha256"]},
    ),
    "unauthorized": ProblemType("This key is not known, has expired or was revoked.", headers=("WWW-Authenticate",)),
    "forbidden": ProblemType("The key lacks the scope jobs:submit."),
    "not_found": ProblemType("There is no job of that id."),
    "method_not_allowed": ProblemType('Method "PUT" not allowed.', headers=("Allow",)),
    "too_slow": ProblemType("The body did not come in time; nothing was done."),
    "idempotency_in_flight": ProblemType(
        "Another request with this Idempotency-Key is being admitted; ask again for what became of it."
    ),
    "no_result": ProblemType("The job is failed; only one that succeeded has a result."),
    "not_cancellable": ProblemType(
        "The job is succeeded; nothing is left to cancel.", members=TheJob, example={"job": examples.SUCCEEDED}
    ),
    "not_finished": ProblemType("The job is running; its result comes when it has succeeded."),
    "upload_in_use": ProblemType(
        "A job that has not ended, or is yet to be admitted, names this upload; it stays until then."
    ),
    "result_gone": ProblemType("The result was kept for its time, and is gone; the job is still shown."),
    "precondition_failed": ProblemType("The job or file is not as If-Match says.", headers=("ETag.now",)),
    "too_large": ProblemType(
        "The body is 90000 bytes; at most 81920 are taken.", members=LimitBytes, example={"limit_bytes": 81_920}
    ),
    "unsupported_media_type": ProblemType("Send the body as application/json, in no Content-Encoding."),
    "range_not_satisfiable": ProblemType("The file is 16 bytes.", headers=("Content-Range",)),
    "deadline_infeasible": ProblemType("The deadline has already passed.", members=InBatch),
    "deadline_unreachable": ProblemType(
        "As class heavy is, this job would probably start too late to end before its deadline: in about 31.5 s.",
        members=Unreachable,
        example={"retry_after_seconds": 12, "cost_class": "heavy", **_DEPTH, "estimated_start_seconds": 31.5},
    ),
    "class_draining": ProblemType(
        "An operator lets class heavy take no more jobs for now; what it has taken goes on.",
        members=Resumed,
        example={"retry_after_seconds": 30, "cost_class": "heavy"},
    ),
    "type_refused": ProblemType(
        "An operator lets no more jobs of this type be taken for now; what was taken goes on.",
        members=Resumed,
        example={"retry_after_seconds": 30, "cost_class": "heavy"},
    ),
    "client_suspended": ProblemType(
        "An operator has suspended this client: it can submit nothing, and what it has waiting does not start. It can still read and cancel its jobs."
    ),
    "cost_too_large": ProblemType(
        "Its work is 90 s by its type's own measure, and it may run for 60 s only.",
        members=CostTooLarge,
        example={
            "errors": [
                {
                    "loc": ["params"],
                    "msg": "Its work is 90 s by its type's own measure, and it may run for 60 s only.",
                }
            ],
            "cost_seconds": 90.0,
            "timeout_seconds": 60.0,
        },
    ),
    "idempotency_mismatch": ProblemType(
        "The Idempotency-Key 'order-17' was used for another request before; a new request needs a new key."
    ),
    "invalid_params": ProblemType(
        "The params do not fit numbers.sum_squares.",
        members=Errors,
        example={"errors": [{"loc": ["params", "numbers", "1"], "msg": "Input should be a valid integer"}]},
    ),
    "invalid_request": ProblemType(
        "This is not a job to submit.",
        members=Errors,
        example={"errors": [{"loc": ["priorty"], "msg": "There is no field of that name."}]},
    ),
    "limit_out_of_range": ProblemType(
        "timeout_seconds is 31; it must be from 0.1 to 30 seconds here.",
        members=Errors,
        example={"errors": [{"loc": ["timeout_seconds"], "msg": "must be from 0.1 to 30 seconds here"}]},
    ),
    "unknown_type": ProblemType(
        "There is no job type 'numbers.sum'; GET /api/v1/types lists them.",
        members=Errors,
        example={"errors": [{"loc": ["type"], "msg": "There is no job type 'numbers.sum'."}]},
    ),
    "would_deadlock": ProblemType(
        "A running job of class heavy would wait for another of its class, and may hold the process that the other one needs.",
        members=TheClass,
        example={"cost_class": "heavy"},
    ),
    "rate_limited": ProblemType(
        "This client may submit 60 jobs a minute; there is room for the next one in 3 s.",
        headers=_RATE,
        members=ComesBack,
        example={"retry_after_seconds": 3},
    ),
    "too_many_jobs": ProblemType(
        "This client may have 20 jobs waiting and running at once, and has them.",
        headers=_RATE,
        members=ComesBack,
        example={"retry_after_seconds": 5},
    ),
    "too_many_transfers": ProblemType(
        "This client has 32 files on their way into this web process, or out of it; come again when one of them is done."
    ),
    "uploads_full": ProblemType(
        "This client keeps 1073741800 bytes of uploads; it may keep 1073741824. Delete one that no job needs, or wait until the oldest goes.",
        members=KeptBytes,
        example={"limit_bytes": 1_073_741_824},
    ),
    "internal_error": ProblemType("The error was logged under this request's id."),
    "queue_full": ProblemType(
        "Class heavy is full: 2 running on 2 slots and 8 waiting.",
        members=Depth,
        example={"retry_after_seconds": 12, "cost_class": "heavy", **_DEPTH},
    ),
    "share_full": ProblemType(
        "Others want some of class heavy too: this client has 5 jobs there, and its share is 5.",
        members=OverShare,
        example={"retry_after_seconds": 12, "cost_class": "heavy", **_DEPTH, "waiting": 5, "room": 3, **_SHARE},
    ),
    "type_unavailable": ProblemType(
        "No live worker of class heavy knows this job type; one may be starting.",
        members=DepthInBatch,
        example={"retry_after_seconds": 5, "cost_class": "heavy", **_DEPTH, "waiting": 0, "room": 8},
    ),
    "none_admitted": ProblemType(
        status=503,
        detail="Class heavy is full: 2 running on 2 slots and 8 waiting.",
        members=NoneAdmitted,
        example={
            "type": "urn:weighbridge:problem:queue_full",
            "title": CODES["queue_full"].title,
            "code": "queue_full",
            "retryable": True,
            "retry_after_seconds": 12,
            "cost_class": "heavy",
            **_DEPTH,
            "room": {"heavy": 0},
            "results": {"a1": examples.CLASS_WAS_FULL, "a2": examples.CLASS_WAS_FULL},
        },
        codes=tuple(OF_ITEMS),
    ),
    "unavailable": ProblemType("The database cannot be reached now.", members=Unavailable),
}
PROBLEMS = {
    code: kind if kind.codes else replace(kind, status=CODES[code].status, retry_after=CODES[code].retryable)
    for code, kind in _TOLD.items()
}

# What any request may be answered with: unreadable, too slow, too large, no turn, or our own fault.
ANYWHERE = ("bad_request", "too_slow", "too_large", "internal_error", "unavailable")


def example(code: str) -> dict[str, Any]:
    """One body."""
    kind = PROBLEMS[code]
    return {
        "type": type_of(code),
        "title": CODES[code].title if code in CODES else "",
        "status": kind.status,
        "detail": kind.detail,
        "code": code,
        "retryable": kind.retry_after,
        **kind.example,
    }


def schema(code: str, members: dict[str, Any]) -> dict[str, Any]:
    """Of its body; `members` is the schema of those that only this one has."""
    kind = PROBLEMS[code]
    codes = kind.codes or (code,)
    standard = {
        "type": _one_of([type_of(each) for each in codes]),
        "title": _one_of([CODES[each].title for each in codes]),
        "status": {"type": "integer", "const": kind.status},
        "detail": {"type": "string", "description": "What happened, for people."},
        "code": _one_of(codes),
        "retryable": {"type": "boolean"} if kind.codes else {"type": "boolean", "const": kind.retry_after},
    }
    return {
        "type": "object",
        "description": members.get("description", "") if kind.codes else CODES[code].title,
        "properties": {**standard, **members.get("properties", {})},
        "required": [*standard, *members.get("required", [])],
        "additionalProperties": False,
        "examples": [example(code)],
    }


def _one_of(words: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "const": words[0]} if len(words) == 1 else {"type": "string", "enum": [*words]}


def type_of(code: str) -> str:
    return f"urn:weighbridge:problem:{code}"


def component(code: str) -> str:
    """Its name among the document's schemas."""
    return f"Problem.{code}"
