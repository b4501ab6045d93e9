"""Decide about a job and accept it, in one database round trip (P1–P3, P7, P10a).

A class is admitted to serially, under an advisory transaction lock, by the database function
`admit_v1`; any number of web processes may call it at once and never admit one job too many.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.utils import OperationalError
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from jobs import queries, refused_lately, tally, telemetry, wakeups
from jobs.capacity import Room
from jobs.classes import CostClass
from jobs.decision import Share
from jobs.door.idempotency import Mismatch
from jobs.door.refusals import BY_OPERATORS, REFUSALS
from jobs.door.submission import Submission
from jobs.models import Job
from jobs.states import Refusal, State
from jobs.turns import pacing
from jobs.turns.book import Caller


class EntryGone(Exception):
    """Nothing was admitted: somebody else is at the outbox entry, or it has ended."""


@dataclass(frozen=True)
class Admitted:
    """`ahead`: jobs that wait before it, by the rank that it was given; `room`: as it was counted, with it. `starts_in_seconds`: when it would
    probably start; None: that is not known. `paused`: it does not start before an operator resumes its class or type."""

    job: Job
    ahead: int = 0
    room: Room | None = None
    starts_in_seconds: float | None = None
    paused: bool = False


@dataclass(frozen=True)
class Replayed:
    """What was accepted earlier under the same key: the job as it is now."""

    job: Job


@dataclass(frozen=True)
class JobQuota:
    """How many jobs a client may have at once, and how many more it may have now."""

    most: int
    left: int


@dataclass(frozen=True)
class Rejected:
    """Why not now, and after how many seconds to come back."""

    reason: Refusal
    retry_after_seconds: int
    cost_class: CostClass
    room: Room | None = None  # None: the class could not even be looked at
    quota: JobQuota | None = None  # the client's, where that is what held it back
    starts_in_seconds: float | None = None  # when it would probably have started
    declared_seconds: float | None = None  # the work that its type says it is
    share: Share | None = None  # that is used up, where that is what held it back
    kept: int = 0  # places that there may be, for callers who were told to come about now (P10)

    @property
    def retryable(self) -> bool:
        """Whether it is of use to come back with the same request."""
        return REFUSALS[self.reason].retryable


# class, type, params, … of one job in; the verdict, the room it was taken on and the new row's own values out.
_ADMIT = """
SELECT verdict, waiting, running, slots, work_seconds, starts_in, share, job_id, accepted_at, start_by, deadline_at, expected, counts, ahead, paused
FROM admit_v1(%(client)s, %(type)s, %(cost_class)s, %(params)s, %(labels)s, %(timeout)s, %(max_attempts)s, %(max_deliveries)s, %(max_wait)s,
              %(deadline_in)s, %(deadline_at)s, %(max_waiting)s, %(max_backlog)s, %(processes)s, %(beat)s, %(max_jobs)s,
              %(request_id)s, %(traceparent)s, %(key)s, %(fingerprint)s, %(flow)s, %(priority)s::smallint, %(ageing)s,
              %(declared_cost)s, %(limit_keys)s, %(refused)s::bigint[], %(kept)s, %(kept_seconds)s, %(own_turns)s)
"""

# The same for an outbox entry, if it still waits and nobody else is at it, and the entry with its job: one statement, so there is never the
# one without the other. Nobody waits for the entry's row, so it may be held before the locks of admission (P6). OFFSET and the reference to
# `asked` keep the planner from admitting anything before it has the row.
_ADMIT_ENTRY = f"""
WITH asked AS MATERIALIZED (
    SELECT id FROM jobs_outboxentry WHERE id = %(outbox)s AND state = 'waiting' FOR UPDATE SKIP LOCKED
), answer AS MATERIALIZED (
    SELECT given.* FROM asked CROSS JOIN LATERAL ({_ADMIT} WHERE asked.id = %(outbox)s OFFSET 0) given
), marked AS (
    UPDATE jobs_outboxentry entry
    SET state = 'admitted', job_id = answer.job_id, ended_at = clock_timestamp(), reason = '', params = '{{}}', tries = entry.tries + 1
    FROM answer WHERE entry.id = %(outbox)s AND answer.verdict = 'admitted'
)
SELECT * FROM answer
"""


def submit(submission: Submission) -> Admitted | Replayed | Rejected:
    """Raises Mismatch for a key of another request, OperationalError (of Django) when the database is away, and EntryGone."""
    arrival = pacing.arrive(_caller(submission), submission.cost_class)
    try:
        verdict, room, starts_in, share, born = _ask(submission, arrival)
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        return _counted(Rejected("unavailable", 1, submission.cost_class))
    if verdict == "replayed":
        telemetry.REPLAYED.labels(submission.cost_class.name).inc()
        return Replayed(queries.job_of(submission.client.pk, born[0]))
    if verdict == "idempotency_mismatch" and submission.idempotency:
        raise Mismatch(submission.idempotency.key)
    if verdict == "idempotency_in_flight":
        return _counted(Rejected("idempotency_in_flight", 1, submission.cost_class))
    if verdict == "too_many_jobs" and submission.client.max_jobs is not None:
        return _counted(over_quota(submission, JobQuota(submission.client.max_jobs, 0)))
    if arrival.returned:
        tally.returned(submission.cost_class.name, admitted=verdict == "admitted")
    if verdict in BY_OPERATORS:
        return _counted(refused_by_operator(verdict, submission.cost_class))
    if verdict != "admitted":
        return _refused(verdict, room, submission, starts_in, share, arrival.kept)
    tally.admitted(submission.cost_class.name)
    *row, ahead, paused = born
    if room.slots and not paused:  # nobody would take the wake-up; the sweep sends one when there is somebody (P14)
        wakeups.after_commit(submission.cost_class.name)
    job = _as_row(submission, room.bound(submission.cost_class.max_waiting - arrival.kept), *row)
    job.estimated_start_at = None if starts_in is None else job.accepted_at + timedelta(seconds=starts_in)
    return Admitted(job, ahead, room, starts_in, paused)


def _ask(
    submission: Submission, arrival: pacing.Arrival
) -> tuple[Any, Room, float | None, Share | None, tuple[Any, ...]]:
    statement, arguments = _ADMIT, _arguments(submission, arrival)
    if submission.outbox_id is not None:
        statement, arguments = _ADMIT_ENTRY, {**arguments, "outbox": submission.outbox_id}
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        row = cursor.fetchone()
    if row is None:
        raise EntryGone
    verdict, waiting, running, slots, work_seconds, starts_in, share, *born = row
    room = Room(waiting or 0, running or 0, slots or 0, work_seconds or 0.0)
    return verdict, room, starts_in, share_of(share), tuple(born)


def _arguments(submission: Submission, arrival: pacing.Arrival) -> dict[str, Any]:
    return {
        "client": submission.client.pk,
        "type": submission.type,
        "cost_class": submission.cost_class.name,
        "params": Jsonb(submission.params),
        "labels": Jsonb(submission.labels),
        "timeout": submission.timeout_seconds,
        "max_attempts": submission.max_attempts,
        "max_deliveries": submission.max_deliveries,
        "max_wait": timedelta(seconds=submission.max_wait_seconds),
        "deadline_in": interval(submission.deadline_in_seconds),
        "deadline_at": submission.deadline_at,
        "max_waiting": submission.cost_class.max_waiting,
        "max_backlog": submission.cost_class.backlog_seconds,
        "kept": arrival.kept,
        "kept_seconds": arrival.kept_seconds,
        "own_turns": arrival.own_turns,
        "processes": submission.cost_class.processes,
        "beat": queries.beat(),
        "max_jobs": submission.client.max_jobs,
        "request_id": submission.request_id,
        "traceparent": submission.traceparent,
        "key": submission.idempotency and submission.idempotency.key,
        "fingerprint": submission.idempotency and submission.idempotency.fingerprint,
        "flow": submission.flow,
        "priority": submission.priority,
        "ageing": ageing_seconds(submission.cost_class),
        "declared_cost": submission.declared_cost_seconds,
        "limit_keys": list(submission.limit_keys),
        "refused": refused_lately.HERE.of(submission.cost_class.name),
    }


def ageing_seconds(cost_class: CostClass) -> float:
    """What a priority of 100 is worth beside waiting: half of the longest wait, so that none starves its client's others (P11a)."""
    return cost_class.max_wait_seconds / 2


def interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def over_quota(submission: Submission, quota: JobQuota) -> Rejected:
    return Rejected("too_many_jobs", submission.cost_class.retry_after_seconds, submission.cost_class, quota=quota)


def refused_by_operator(reason: Any, cost_class: CostClass) -> Rejected:
    """Nothing is counted, and when it is over nobody knows."""
    return Rejected(reason, queries.RESUMED_IN_SECONDS, cost_class)


def share_of(told: str | None) -> Share | None:
    """As over_share_v1 tells it; Django leaves jsonb as text."""
    return None if told is None else Share(**json.loads(told))


def _refused(
    reason: Any, room: Room, submission: Submission, starts_in: float | None, share: Share | None, kept: int
) -> Rejected:
    cost_class = submission.cost_class
    after = pacing.retry_after(reason, _caller(submission), room, cost_class, share=share)
    declared = submission.declared_cost_seconds
    return _counted(Rejected(reason, after, cost_class, room, None, starts_in, declared, share, kept))


def _caller(submission: Submission) -> Caller:
    """An outbox entry is tried again under its id."""
    entry = str(submission.outbox_id) if submission.outbox_id else None
    return pacing.whose(submission.client.pk, submission.idempotency.key if submission.idempotency else entry)


def _counted(rejected: Rejected) -> Rejected:
    tally.refused(rejected.cost_class.name, rejected.reason)
    return rejected


def _as_row(
    submission: Submission,
    bound: int,
    job_id: Any,
    accepted_at: Any,
    start_by: Any,
    deadline_at: Any,
    expected: float | None,
    counts: float,
) -> Job:
    """The row as the database has it now, without reading it back."""
    return Job(
        id=job_id,
        client=submission.client,
        type=submission.type,
        cost_class=submission.cost_class.name,
        params=submission.params,
        labels=submission.labels,
        state=State.QUEUED.value,
        admitted_bound=bound,
        accepted_at=accepted_at,
        available_at=accepted_at,
        start_by=start_by,
        deadline_at=deadline_at,
        timeout_seconds=submission.timeout_seconds,
        max_attempts=submission.max_attempts,
        max_deliveries=submission.max_deliveries,
        flow=submission.flow,
        limit_keys=list(submission.limit_keys),
        priority=submission.priority,
        expected_seconds=expected,
        cost_seconds=counts,
        attempt=0,
        failures=0,
        lost=0,
        progress_note="",
        result_expired=False,
        error_code="",
        error_message="",
        error_retryable=False,
        stopped_by="",
        request_id=submission.request_id,
        traceparent=submission.traceparent,
    )
