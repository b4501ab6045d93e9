"""Between JSON and batches: what a submit of many may say, and how a batch is shown."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobs.admission import Submission
from jobs.api.errors import Problem
from jobs.api.serializers import (
    Instant,
    Origin,
    batch_address,
    instant,
    remaining_seconds,
    submission,
)
from jobs.batches import BatchRejected, BatchSubmission, ItemOutcome, Seen
from jobs.door.idempotency import BadKey, Idempotency, of_item
from jobs.door.weighing import LONGEST_DEADLINE_SECONDS

MOST_ITEMS = 100
JOBS = "/api/v1/jobs"  # what an item's own key stands for is the same request as there

ItemName = Annotated[str, Field(min_length=1, max_length=64)]


class BatchBody(BaseModel):
    """The body of POST /batches. Each item is a body of POST /jobs, and may have a `key` of its own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    jobs: Annotated[dict[ItemName, dict[str, Any]], Field(min_length=1, max_length=MOST_ITEMS)]
    deadline_seconds: Annotated[float | None, Field(le=LONGEST_DEADLINE_SECONDS)] = None
    deadline_at: Instant | None = None
    atomic: bool = True


def asked_for(body: Any) -> tuple[int, bool]:
    """How many jobs, and whether all of them or none; before it is known whether the body is a batch at all."""
    if not isinstance(body, dict) or not isinstance(body.get("jobs"), dict):
        return 1, True
    return min(max(1, len(body["jobs"])), MOST_ITEMS), body.get("atomic", True) is not False


def batch(
    data: Any, origin: Origin, remaining_ms: str | None, idempotency: Idempotency | None, passed: int | None
) -> BatchSubmission:
    """A request body as a submission. Raises Problem (4xx) for what cannot be one: nothing of a batch is admitted then, atomic or not.

    `passed`: how many of its jobs the client's rate lets through; None for all.
    """
    body = _body(data)
    items = _items(body, origin, idempotency)
    late = {} if passed is None or body.atomic else dict.fromkeys(list(items)[passed:], "rate_limited")
    return BatchSubmission(
        client=origin.client,
        items=items,
        atomic=body.atomic,
        deadline_in_seconds=remaining_seconds(body.deadline_seconds, remaining_ms),
        deadline_at=body.deadline_at,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
        idempotency=idempotency,
        refused=late,  # type: ignore[arg-type]
    )


def _body(data: Any) -> BatchBody:
    try:
        return BatchBody.model_validate(data)
    except ValidationError as error:
        raise Problem.invalid("invalid_request", "The request body is not a batch to submit.", error) from None


def _items(body: BatchBody, origin: Origin, idempotency: Idempotency | None) -> dict[str, Submission]:
    """Every item is looked at, so that all that is wrong can be said at once."""
    items: dict[str, Submission] = {}
    problems: list[tuple[str, Problem]] = []
    keys = {idempotency.key} if idempotency else set()
    for name, asked in body.jobs.items():
        try:
            items[name] = _item(asked, origin, keys)
        except Problem as problem:
            problems.append((name, problem))
    if problems:
        raise _of_items(problems)
    return items


def _item(asked: dict[str, Any], origin: Origin, keys: set[str]) -> Submission:
    """`keys` are those of the request so far; the item's own is added."""
    rest = {name: value for name, value in asked.items() if name != "key"}
    return submission(rest, origin, None, _own_key(asked["key"], rest, keys) if "key" in asked else None)


def _own_key(key: Any, rest: dict[str, Any], keys: set[str]) -> Idempotency:
    try:
        if not isinstance(key, str):
            raise BadKey("A key is a string.")
        if key in keys:
            raise BadKey("Each key of a request stands for one thing; this one is there twice.")
        idempotency = of_item(key, JOBS, rest)
    except BadKey as error:
        message = str(error)
        raise Problem(422, "invalid_request", message, errors=[{"loc": ["key"], "msg": message}]) from None
    keys.add(key)
    return idempotency


def _of_items(problems: list[tuple[str, Problem]]) -> Problem:
    """One problem of all, with the first one's code; each place is named with its item."""
    errors = [
        {"loc": ["jobs", name, *error["loc"]], "msg": error["msg"]}
        for name, problem in problems
        for error in problem.members.get("errors") or [{"loc": _place(problem), "msg": problem.detail}]
    ]
    name, first = problems[0]
    more = f" {len(problems) - 1} more of its items cannot be taken either." if len(problems) > 1 else ""
    others = {key: value for key, value in first.members.items() if key != "errors"}
    return Problem(first.status, first.code, f"Item {name!r}: {first.detail}{more}", errors=errors[:100], **others)


def _place(problem: Problem) -> list[str]:
    return {"unknown_type": ["type"], "too_large": ["params"]}.get(problem.code, [])


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(answer: BatchRejected) -> Problem:
    """Of the whole batch: as of one of its jobs, with the item that decided it, or the verdict on each."""
    rejected = answer.rejected
    if rejected.reason == "batch_too_large":
        room = rejected.room
        bound = rejected.cost_class.max_waiting + max(rejected.cost_class.processes, room.slots if room else 0)
        return too_large(f"Class {rejected.cost_class.name} can never hold more than {bound} jobs at once.")
    if answer.items:
        return _none_admitted(answer)
    problem = Problem.refused(rejected)
    if answer.item is not None:
        problem.detail = f"Item {answer.item!r}: {problem.detail}"
        problem.members["errors"] = [{"loc": ["jobs", answer.item], "msg": problem.detail}]
    return problem


def _none_admitted(answer: BatchRejected) -> Problem:
    """503, whatever each was refused for. To come back is of no use only where each was refused for good."""
    reason, after = answer.rejected.reason, answer.rejected.retry_after_seconds
    if reason in _OF_A_CLASS:
        problem = Problem.refused(answer.rejected)
    else:
        named = next(name for name, said in answer.items.items() if said == reason)
        sentence = f"None of its jobs was admitted. Item {named!r}: {REFUSALS[reason]}"
        problem = Problem(503, reason, sentence, retry_after=None if reason in _LASTING else after)
    problem.members["results"] = {name: _refused_item(said) for name, said in answer.items.items()}
    problem.members["room"] = dict(answer.free)
    return problem


def too_large(why: str) -> Problem:
    return Problem(422, "batch_too_large", f'{why} Send fewer jobs in a batch, or with "atomic": false.')


# ── Batches as they are shown ────────────────────────────────────────────────────────────────────────────────────────


def shown(seen: Seen, with_data: bool) -> dict[str, Any]:
    """Who may submit or cancel, but not read, is told no data."""
    row = seen.batch
    return {
        "id": str(row.pk),
        "state": row.state,
        "atomic": row.atomic,
        "accepted_at": instant(row.accepted_at),
        "deadline_at": instant(row.deadline_at),
        "cancel_requested_at": instant(row.cancel_requested_at),
        "sealed_at": instant(row.sealed_at),
        "partial": seen.partial,
        "counts": seen.counts,
        "results": {item.name: _result(item, with_data) for item in seen.items if item.verdict != "pending"},
        "jobs": {item.name: None if item.job_id is None else str(item.job_id) for item in seen.items},
        "links": {"self": batch_address(row.pk)},
    }


def _result(item: ItemOutcome, with_data: bool) -> dict[str, Any]:
    job = None if item.job_id is None else str(item.job_id)
    match item.verdict:
        case "ok":
            expired = {"data_expired": True} if item.data_expired else {}
            return {"ok": True, "data": item.data if with_data else None, "job": job, **expired}
        case "refused":
            return _refused_item(item.refusal)
        case "failed":
            return {"ok": False, "error": item.error, "job": job}
        case verdict:
            return {"ok": False, "error": _error(verdict, _ENDED[verdict], False), "job": job}


_ENDED = {
    "deadline_exceeded": "It had not ended at the batch's deadline, and was cancelled.",
    "cancelled": "It was cancelled.",
}
REFUSALS = {
    "queue_full": "Its class was full.",
    "type_unavailable": "No live worker of its class knew its type.",
    "too_many_jobs": "The client had as many jobs waiting and running as it may have at once.",
    "rate_limited": "The client had submitted as many jobs in a minute as it may.",
    "deadline_infeasible": "Its own deadline had already passed.",
    "idempotency_mismatch": "Its key belongs to another request.",
}
_OF_A_CLASS = {"queue_full", "type_unavailable"}  # which say more: what was seen of it
_LASTING = {"deadline_infeasible", "idempotency_mismatch"}


def _refused_item(reason: str) -> dict[str, Any]:
    return {"ok": False, "error": _error(reason, REFUSALS[reason], reason not in _LASTING), "job": None}


def _error(code: str, message: str, retryable: bool) -> dict[str, Any]:
    """The shape of a job's own error."""
    return {"code": code, "message": message, "retryable": retryable, "stopped_by": None, "details": None}
