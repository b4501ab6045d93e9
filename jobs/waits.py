"""Where a queued job stands: how many go before it, when it would start as its class is now, and what holds it. Advisory: the next admission may change it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.utils import InterfaceError, OperationalError

from jobs import capacity, costs, queries
from jobs.admission import Admitted
from jobs.models import Job
from jobs.states import State


@dataclass(frozen=True)
class Waiting:
    """position: 1 is the next. The instants, the mean's and the one that 19 of 20 such jobs would keep, are the database's; None: not known.
    held_by: `limit:<key>`, `client_limit` (its client runs as many as it may), `retry_backoff`, or `paused`, by an operator: its class, its type, or
    whatever its client has waiting; None: nothing but those before it."""

    position: int
    starts_at: datetime | None = None
    starts_p95_at: datetime | None = None
    held_by: str | None = None


@dataclass(frozen=True)
class _Seen:
    now: datetime
    running: int
    before: int
    mean_seconds: float | None
    slots: int
    held_by: str | None
    available_at: datetime


def of(job: Job) -> Waiting | None:
    """None for one that does not wait, or that began in between."""
    if job.state != State.QUEUED:
        return None
    seen = _look(job)
    if seen is None:
        return None
    if seen.held_by is not None and seen.held_by != BACKOFF:
        return Waiting(seen.before + 1, held_by=seen.held_by)  # when another lets go is not known
    return Waiting(seen.before + 1, *_starts(seen, _mean_known(job)), seen.held_by)


def at_admission(admitted: Admitted) -> Waiting | None:
    """As the admission saw it, at no round trip more: by the rank that the job was given, though a priority or a flow may bring it on earlier.
    Whether a limit holds it has to be looked up."""
    job, room, starts_in = admitted.job, admitted.room, admitted.starts_in_seconds
    if admitted.paused:
        return Waiting(admitted.ahead + 1, held_by=PAUSED)
    if job.limit_keys or job.client.max_running is not None:
        return told(job)
    if room is None or starts_in is None:
        return Waiting(admitted.ahead + 1)
    departures = room.running + admitted.ahead + 1 - room.slots
    mean = starts_in * room.slots / departures if departures > 0 else 0.0
    sure = capacity.start_seconds(departures, room.slots, mean) if mean else 0.0
    starts_at, sure_at = (job.accepted_at + timedelta(seconds=wait) for wait in (starts_in, sure))
    return Waiting(admitted.ahead + 1, starts_at, sure_at)


def told(job: Job) -> Waiting | None:
    """The same behind an answer that must be given whatever becomes of the database: the job is admitted already."""
    try:
        return of(job)
    except (OperationalError, InterfaceError):
        return None


BACKOFF, PAUSED = "retry_backoff", "paused"


def _mean_known(job: Job) -> bool:
    """Else the mean of those before it is made of what unknown work counts in the order, and tells no time."""
    return job.expected_seconds is not None or costs.mean_seconds(job.cost_class) is not None


def _starts(seen: _Seen, mean_known: bool) -> tuple[datetime | None, datetime | None]:
    departures = seen.running + seen.before + 1 - seen.slots
    if seen.slots == 0 or (departures > 0 and not (mean_known and seen.mean_seconds)):
        return None, None
    mean = seen.mean_seconds or 0.0
    expected = max(0, departures) * mean / seen.slots
    sure = capacity.start_seconds(departures, seen.slots, mean)
    return _from_now(seen, expected), _from_now(seen, sure)


def _from_now(seen: _Seen, seconds: float) -> datetime:
    return max(seen.now + timedelta(seconds=seconds), seen.available_at)


def _look(job: Job) -> _Seen | None:
    arguments: dict[str, Any] = {"job": job.pk, "beat": queries.beat(), "backoff": BACKOFF, "paused": PAUSED}
    with connection.cursor() as cursor:
        cursor.execute(_WHERE_IT_STANDS, arguments)
        row: Any = cursor.fetchone()
    if row is None:
        return None
    return _Seen(*row)


# A job takes its turn in its client's and its flow's order, not by the rank that it was given (P11a). So of the ranks that the client's jobs hold it is
# the n-th that counts for the n-th of them: in a flow by own_order, between flows by the flow_ranks that the flow's jobs hold. That is what claims do
# with it one after another, but for ties and for jobs that a limit or a backoff makes them step over. Costs what waits in the class, once.
_WHERE_IT_STANDS = """
WITH job AS (
    SELECT * FROM jobs_job WHERE id = %(job)s AND state = 'queued'
), own AS (
    SELECT other.id, other.rank, other.turn, other.flow, other.flow_rank, other.sequence,
           row_number() OVER (PARTITION BY other.flow ORDER BY other.own_order, other.sequence) AS goes,
           row_number() OVER (PARTITION BY other.flow ORDER BY other.flow_rank, other.sequence) AS seat
    FROM jobs_job other, job
    WHERE other.cost_class = job.cost_class AND other.client_id = job.client_id AND other.state = 'queued'
          AND (other.start_by IS NULL OR other.start_by > clock_timestamp() OR other.id = job.id)
), flowing AS (
    SELECT own.id, row_number() OVER (ORDER BY taken.flow_rank, taken.sequence) AS nth
    FROM own JOIN own taken ON taken.flow = own.flow AND taken.seat = own.goes
), ranked AS (
    SELECT rank, turn, row_number() OVER (ORDER BY rank, turn) AS nth FROM own
)
SELECT clock_timestamp(), ahead.running, ahead.waiting, ahead.mean_seconds, room.slots,
       CASE WHEN client.suspended_at IS NOT NULL OR not_paused_v1(job.cost_class, ARRAY[job.type::text]) = '{}' THEN %(paused)s
            WHEN job.available_at > clock_timestamp() THEN %(backoff)s
            WHEN job.limit_keys <> '{}' OR client.max_running IS NOT NULL THEN (
                SELECT coalesce(
                    (SELECT 'limit:' || named.key FROM unnest(job.limit_keys) AS named (key) WHERE named.key = ANY(held.keys) LIMIT 1),
                    CASE WHEN job.client_id = ANY(held.clients) THEN 'client_limit' END)
                FROM held_v1(job.cost_class) held) END,
       job.available_at
FROM job JOIN jobs_apiclient client ON client.id = job.client_id
JOIN flowing ON flowing.id = job.id JOIN ranked ON ranked.nth = flowing.nth,
     LATERAL jobs_ahead_v1(job.cost_class, ranked.rank, ranked.turn) ahead,
     LATERAL class_room_v1(job.cost_class, %(beat)s) room
"""
