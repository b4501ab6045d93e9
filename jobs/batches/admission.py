"""Decide about all jobs of a batch and accept them, in one database round trip (P1–P3, P6, P7).

The database function `admit_batch_v1` takes the locks in P6's order, the classes' by name, counts, and inserts: what `admit_v1` does for one job.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.utils import OperationalError
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from jobs import queries, refused_lately, tally, telemetry, wakeups
from jobs.admission import (
    JobQuota,
    Rejected,
    ageing_seconds,
    interval,
    over_quota,
    refused_by_operator,
    share_of,
)
from jobs.capacity import Room
from jobs.classes import CostClass
from jobs.decision import Share
from jobs.door.idempotency import Idempotency, Mismatch
from jobs.door.refusals import BY_OPERATORS, LASTING
from jobs.door.submission import Submission
from jobs.models import ApiClient
from jobs.states import Refusal
from jobs.turns import pacing
from jobs.turns.book import Caller

ADMITTED, REPLAYED, REFUSED = "admitted", "replayed", "refused"
_OF_AN_ITEM = {
    "class_draining",
    "deadline_infeasible",
    "deadline_unreachable",
    "share_full",
    "type_refused",
    "type_unavailable",
}  # which one of them decides


@dataclass(frozen=True)
class BatchSubmission:
    """One validated request for a batch. `refused` are items that are not to be admitted, and why; for batches that are not atomic."""

    client: ApiClient
    items: Mapping[str, Submission]
    atomic: bool = True
    deadline_in_seconds: float | None = None  # of this and deadline_at, the earlier counts
    deadline_at: datetime | None = None
    request_id: str = ""
    traceparent: str = ""
    idempotency: Idempotency | None = None
    refused: Mapping[str, Refusal] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchAdmitted:
    """`free`: places that each class had left, by its name; of classes that had to be counted."""

    batch_id: UUID
    free: Mapping[str, int]


@dataclass(frozen=True)
class BatchReplayed:
    """What was accepted earlier under the same key."""

    batch_id: UUID


@dataclass(frozen=True)
class BatchRejected:
    """Nothing was admitted. `rejected` is why, as of one job of the class that had no room.

    `item`: the one that decided it, if one did. `items`: of a batch that is not atomic, what was said of each.
    """

    rejected: Rejected
    item: str | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    free: Mapping[str, int] = field(default_factory=dict)


_ADMIT = """
SELECT verdict, about, batch_id, verdicts, rooms, starts_in, share
FROM admit_batch_v1(%(client)s, %(atomic)s, %(items)s, %(deadline_in)s, %(deadline_at)s, %(beat)s, %(max_jobs)s,
                    %(request_id)s, %(traceparent)s, %(key)s, %(fingerprint)s, %(refused)s)
"""


@dataclass(frozen=True)
class _Decision:
    verdict: str
    about: str | None  # the item, class, key or number of places that decided it
    batch_id: UUID | None
    of_items: Mapping[str, str | None]
    rooms: Mapping[str, Room]
    starts_in_seconds: float | None  # of the first item that would probably start too late
    share: Share | None  # of the first item that was beyond one
    kept: Mapping[str, int]  # places of each class that are for others, whose turn is near (P10)


def submit(submission: BatchSubmission) -> BatchAdmitted | BatchReplayed | BatchRejected:
    """Raises Mismatch for a key of another request, and OperationalError (of Django) when the database is away."""
    arrivals = {name: pacing.arrive(_caller(submission), one) for name, one in _classes(submission).items()}
    try:
        answer = _ask(submission, arrivals)
        _count_returned(submission, arrivals, answer)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        return _rejected(submission, "unavailable", None, None)  # a client with a quota that submits from many places
    if answer.verdict == "idempotency_mismatch":
        raise Mismatch(str(answer.about))
    if answer.verdict == REPLAYED and answer.batch_id:
        telemetry.BATCHES_REPLAYED.inc()
        return BatchReplayed(answer.batch_id)
    if answer.verdict == ADMITTED and answer.batch_id:
        return _admitted(submission, answer, answer.batch_id)
    if answer.verdict == "too_many_jobs":
        return _over_quota(submission, int(str(answer.about)))
    if answer.verdict == REFUSED:
        return _all_refused(submission, answer)
    return _rejected(submission, answer.verdict, answer.about, answer)


def _ask(submission: BatchSubmission, arrivals: Mapping[str, pacing.Arrival]) -> _Decision:
    with connection.cursor() as cursor:
        cursor.execute(_ADMIT, _arguments(submission, arrivals))
        verdict, about, batch_id, verdicts, rooms, starts_in, share = cursor.fetchone()  # Django leaves jsonb as text
    of_items = dict(zip(submission.items, verdicts, strict=True))
    counted = {name: Room(*figures) for name, figures in json.loads(rooms).items()}
    kept = {name: arrival.kept for name, arrival in arrivals.items()}
    return _Decision(verdict, about, batch_id, of_items, counted, starts_in, share_of(share), kept)


def _count_returned(submission: BatchSubmission, arrivals: Mapping[str, pacing.Arrival], answer: _Decision) -> None:
    verdicts = {(item.cost_class.name, answer.of_items[name]) for name, item in submission.items.items()}
    for cost_class, arrival in arrivals.items():
        if arrival.returned:
            tally.returned(cost_class, admitted=answer.verdict == ADMITTED and (cost_class, ADMITTED) in verdicts)


def _arguments(submission: BatchSubmission, arrivals: Mapping[str, pacing.Arrival]) -> dict[str, Any]:
    items = [
        _item(*numbered, submission.refused, arrivals) for numbered in enumerate(submission.items.items(), start=1)
    ]
    return {
        "client": submission.client.pk,
        "atomic": submission.atomic,
        "items": Jsonb(items),
        "deadline_in": interval(submission.deadline_in_seconds),
        "deadline_at": submission.deadline_at,
        "beat": queries.beat(),
        "max_jobs": submission.client.max_jobs,
        "request_id": submission.request_id,
        "traceparent": submission.traceparent,
        "key": submission.idempotency and submission.idempotency.key,
        "fingerprint": submission.idempotency and submission.idempotency.fingerprint,
        "refused": Jsonb({name: refused_lately.HERE.of(name) for name in _classes(submission)}),
    }


def _classes(submission: BatchSubmission) -> dict[str, CostClass]:
    return {one.cost_class.name: one.cost_class for one in submission.items.values()}


def _item(
    position: int, named: tuple[str, Submission], refused: Mapping[str, str], arrivals: Mapping[str, pacing.Arrival]
) -> dict[str, Any]:
    name, one = named
    arrival = arrivals[one.cost_class.name]
    return {
        "position": position,
        "name": name,
        "type": one.type,
        "cost_class": one.cost_class.name,
        "params": one.params,
        "labels": one.labels,
        "timeout": one.timeout_seconds,
        "max_attempts": one.max_attempts,
        "max_deliveries": one.max_deliveries,
        "max_wait": one.max_wait_seconds,
        "deadline_in": one.deadline_in_seconds,
        "deadline_at": one.deadline_at and one.deadline_at.isoformat(),
        "max_waiting": one.cost_class.max_waiting,
        "kept": arrival.kept,
        "kept_seconds": arrival.kept_seconds,
        "own_turns": arrival.own_turns,
        "processes": one.cost_class.processes,
        "key": one.idempotency and one.idempotency.key,
        "fingerprint": one.idempotency and one.idempotency.fingerprint,
        "refused": refused.get(name),
        "flow": one.flow,
        "priority": one.priority,
        "declared_cost": one.declared_cost_seconds,
        "limit_keys": list(one.limit_keys),
        "max_backlog": one.cost_class.backlog_seconds,
        "ageing": ageing_seconds(one.cost_class),
    }


def _admitted(submission: BatchSubmission, answer: _Decision, batch_id: UUID) -> BatchAdmitted:
    telemetry.BATCHES_ADMITTED.inc()
    admitted: dict[str, int] = {}
    for name, item in submission.items.items():
        cost_class, said = item.cost_class.name, answer.of_items[name]
        if said == ADMITTED:
            tally.admitted(cost_class)
            admitted[cost_class] = admitted.get(cost_class, 0) + 1
        elif said == REPLAYED:
            telemetry.REPLAYED.labels(cost_class).inc()
        else:
            _count_refused(submission, cost_class, str(said))
    for cost_class, count in admitted.items():
        if answer.rooms[cost_class].slots:  # as for one job (P14)
            wakeups.after_commit(cost_class, count)
    return BatchAdmitted(batch_id, _free(submission, answer, admitted))


def _free(submission: BatchSubmission, answer: _Decision, admitted: Mapping[str, int]) -> dict[str, int]:
    """As the classes were counted, less what has just been admitted."""
    known = _classes(submission)
    return {
        name: max(0, known[name].free(room) - admitted.get(name, 0) - answer.kept[name])
        for name, room in sorted(answer.rooms.items())
    }


def _all_refused(submission: BatchSubmission, answer: _Decision) -> BatchRejected:
    """What the first item was refused for that may be admitted later stands for all."""
    said = {name: str(verdict) for name, verdict in answer.of_items.items()}
    for name, reason in said.items():
        _count_refused(submission, submission.items[name].cost_class.name, reason)
    first = next((name for name in said if said[name] not in LASTING), next(iter(said)))
    rejected = _as_of_one(submission, said[first], submission.items[first], answer)
    return BatchRejected(rejected, None, said, _free(submission, answer, {}))


def _over_quota(submission: BatchSubmission, left: int) -> BatchRejected:
    """All of an atomic one, which counts for the class of its first item."""
    first = next(iter(submission.items.values()))
    _count_refused(submission, first.cost_class.name, "too_many_jobs", len(submission.items))
    return BatchRejected(over_quota(first, JobQuota(submission.client.max_jobs or 0, left)))


def _rejected(submission: BatchSubmission, reason: str, about: str | None, answer: _Decision | None) -> BatchRejected:
    """`about` is an item, or a class."""
    named = about if about in submission.items and reason in _OF_AN_ITEM else None
    of_class = (item for item in submission.items.values() if item.cost_class.name == about)
    decided_it = submission.items[named] if named else next(of_class, next(iter(submission.items.values())))
    _count_refused(submission, decided_it.cost_class.name, reason, len(submission.items))
    return BatchRejected(_as_of_one(submission, reason, decided_it, answer), named)


def _count_refused(submission: BatchSubmission, cost_class: str, reason: str, items: int = 1) -> None:
    tally.refused(cost_class, reason, items)
    if reason in refused_lately.WANT_ROOM:
        refused_lately.HERE.note(cost_class, submission.client.pk)


def _as_of_one(submission: BatchSubmission, reason: Any, item: Submission, answer: _Decision | None) -> Rejected:
    cost_class = item.cost_class
    room = answer.rooms.get(cost_class.name) if answer else None
    if reason in {"unavailable", "idempotency_in_flight"}:
        return Rejected(reason, 1, cost_class)
    if reason in BY_OPERATORS:
        return refused_by_operator(reason, cost_class)
    if room is None:
        return Rejected(reason, cost_class.retry_after_seconds, cost_class)
    wanted = sum(one.cost_class.name == cost_class.name for one in submission.items.values())
    places = wanted if submission.atomic else 1
    share = answer.share if answer and reason == "share_full" else None
    after = pacing.retry_after(reason, _caller(submission), room, cost_class, places, share)
    starts_in = answer.starts_in_seconds if answer else None
    declared = item.declared_cost_seconds
    kept = answer.kept[cost_class.name] if answer else 0
    return Rejected(reason, after, cost_class, room, None, starts_in, declared, share, kept)


def _caller(submission: BatchSubmission) -> Caller:
    return pacing.whose(submission.client.pk, submission.idempotency.key if submission.idempotency else None)
