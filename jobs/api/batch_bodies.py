"""Between JSON and batches: what a submit of many may say, and how a batch is shown."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobs.api import refused
from jobs.api.errors import Problem
from jobs.api.serializers import batch_address, instant
from jobs.api.submits import Origin, asked_job, remaining_seconds
from jobs.batches import BatchSubmission, ItemOutcome, Seen
from jobs.door import asking
from jobs.door.forms import LONGEST_DEADLINE_SECONDS, Instant
from jobs.door.idempotency import BadKey, Idempotency, of_item
from jobs.door.invalid import MOST_PLACES, InvalidJob, places
from jobs.door.submission import Submission
from jobs.states import Refusal

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
    """A request body as a submission. Raises InvalidJob for what cannot be one, and Problem (400): nothing of a batch is admitted then, atomic or not.

    `passed`: how many of its jobs the client's rate lets through; None for all.
    """
    body = _body(data)
    items = _items(body, origin, idempotency)
    late: dict[str, Refusal] = {}
    if passed is not None and not body.atomic:
        late = dict.fromkeys(list(items)[passed:], "rate_limited")
    return BatchSubmission(
        client=origin.client,
        items=items,
        atomic=body.atomic,
        deadline_in_seconds=remaining_seconds(body.deadline_seconds, remaining_ms),
        deadline_at=body.deadline_at,
        request_id=origin.request_id,
        traceparent=origin.traceparent,
        idempotency=idempotency,
        refused=late,
    )


def _body(data: Any) -> BatchBody:
    try:
        return BatchBody.model_validate(data)
    except ValidationError as error:
        raise InvalidJob("invalid_request", "The request body is not a batch to submit.", places(error)) from None


def _items(body: BatchBody, origin: Origin, idempotency: Idempotency | None) -> dict[str, Submission]:
    """Every item is looked at, so that all that is wrong can be said at once."""
    items: dict[str, Submission] = {}
    wrong: list[tuple[str, InvalidJob]] = []
    keys = {idempotency.key} if idempotency else set()
    for name, said in body.jobs.items():
        try:
            items[name] = _item(said, origin, keys)
        except InvalidJob as error:
            wrong.append((name, error))
    if wrong:
        raise _of_items(wrong)
    return items


def _item(said: dict[str, Any], origin: Origin, keys: set[str]) -> Submission:
    """`keys` are those of the request so far; the item's own is added."""
    rest = {name: value for name, value in said.items() if name != "key"}
    key = _own_key(said["key"], rest, keys) if "key" in said else None
    return asking.submission(asked_job(rest, origin, None, key), origin.client)


def _own_key(key: Any, rest: dict[str, Any], keys: set[str]) -> Idempotency:
    try:
        if not isinstance(key, str):
            raise BadKey("A key is a string.")
        if key in keys:
            raise BadKey("Each key of a request stands for one thing; this one is there twice.")
        idempotency = of_item(key, JOBS, rest)
    except BadKey as error:
        message = str(error)
        raise InvalidJob("invalid_request", message, [{"loc": ["key"], "msg": message}]) from None
    keys.add(key)
    return idempotency


def _of_items(wrong: list[tuple[str, InvalidJob]]) -> InvalidJob:
    """One of all, with the first one's code; each place is named with its item."""
    errors = [
        {"loc": ["jobs", name, *place["loc"]], "msg": place["msg"]} for name, error in wrong for place in error.errors
    ]
    name, first = wrong[0]
    more = f" {len(wrong) - 1} more of its items cannot be taken either." if len(wrong) > 1 else ""
    sentence = f"Item {name!r}: {Problem.invalid(first).detail}{more}"
    errors = errors[:MOST_PLACES]
    return InvalidJob(first.code, sentence, errors, limit_bytes=first.limit_bytes, seconds=first.seconds)


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
            omitted = _where_it_is(f"{JOBS}/{job}/result") if item.omitted and with_data else {}
            return {"ok": True, "data": item.data if with_data else None, "job": job, **expired, **omitted}
        case "refused":
            return refused.item(item.refusal)
        case "failed":
            omitted = _where_it_is(f"{JOBS}/{job}") if item.omitted else {}
            return {"ok": False, "error": item.error, "job": job, **omitted}
        case verdict:
            return refused.item_failed(verdict, _ENDED[verdict], job_id=job)


def _where_it_is(address: str) -> dict[str, Any]:
    return {"omitted": True, "links": {"whole": address}}


_ENDED = {
    "deadline_exceeded": "It had not ended at the batch's deadline, and was cancelled.",
    "cancelled": "It was cancelled.",
}
