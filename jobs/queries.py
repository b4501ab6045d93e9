"""Reads for the API, the admin and the metrics. Depth figures are bounded by the queue limits."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Q
from django.db.models.functions import Now

from jobs import capacity, classes, costs, decision
from jobs.capacity import DRAIN_WINDOW_SECONDS, RETRY_AFTER_CAP_SECONDS, Room
from jobs.classes import LIVE_LIMITS, CostClass
from jobs.decision import Share
from jobs.files import artifacts
from jobs.kept import Kept
from jobs.models import Job
from jobs.states import LIVE, State

RESUMED_IN_SECONDS = (
    30  # told to who is refused by an operator's word: nobody knows, and to ask twice a minute is cheap
)


def room(cost_class: str) -> Room:
    """What waits, what runs, and the live slots of one class, now."""
    arguments: list[Any] = [cost_class, beat()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT waiting, running, slots, work_seconds FROM class_room_v1(%s, %s)", arguments)
        return Room(*cursor.fetchone())


def beat() -> timedelta:
    """An interval, as the database functions take it."""
    return timedelta(seconds=settings.WEIGHBRIDGE_BEAT_SECONDS)


def _measure_drain(cost_class: str) -> float | None:
    """Departures per second over the last minute, or since the first of those that left was accepted if that is shorter."""
    with connection.cursor() as cursor:
        cursor.execute(_DEPARTURES, {"cost_class": cost_class, "window": DRAIN_WINDOW_SECONDS})
        departures, over_seconds = cursor.fetchone()
    return capacity.drain_per_second(departures, over_seconds)


# All ways of leaving count. A class that has only just begun is measured from its first departure's job's
# acceptance, else five departures in its first second would read as five in a minute. statement_timestamp() bounds the index, which
# clock_timestamp() cannot: it may change from row to row.
_DEPARTURES = """
SELECT count(*), least(%(window)s, extract(epoch FROM clock_timestamp() - min(accepted_at)))::float8
FROM jobs_job WHERE cost_class = %(cost_class)s AND finished_at > statement_timestamp() - make_interval(secs => %(window)s)
"""

drain: Callable[[str], float | None] = Kept(_measure_drain)


def departures_per_second(cost_class: CostClass, room: Room) -> float | None:
    """By the measured drain, or by what the live slots can do where it did not have enough to do; None if neither is known."""
    run_seconds = costs.mean_seconds(cost_class.name) if room.slots else None
    return capacity.departures_per_second(drain(cost_class.name), room.slots, run_seconds)


def retry_after_seconds(cost_class: CostClass, room: Room, places: int = 1, share: Share | None = None) -> int:
    """When who is refused, and needs so many places at once, could come back if nobody else did: not before there is room by count, nor by work (P5). Where a
    share is used up, it is that one which has to drain (P10a)."""
    if share is not None:
        drained, fallback = departures_per_second(cost_class, room), cost_class.retry_after_seconds
        return decision.share_retry_after_seconds(share, room, cost_class.bounds, drained, fallback, places)
    drained = capacity.retry_after_seconds(
        room,
        cost_class.max_waiting,
        departures_per_second(cost_class, room),
        cost_class.retry_after_seconds,
        places,
    )
    worked_off = capacity.worked_off_in_seconds(cost_class.backlog_of(room), cost_class.backlog_seconds)
    return min(max(drained, math.ceil(worked_off)), RETRY_AFTER_CAP_SECONDS)


@dataclass(frozen=True)
class ClassView:
    """One class as callers may see it; advisory only."""

    cost_class: CostClass
    room: Room
    workers: int  # live nodes, those that are stopping too
    observed_at: datetime
    paused: bool = False
    draining: bool = False

    @property
    def accepting(self) -> bool:
        return not self.draining and self.cost_class.free(self.room) > 0

    @property
    def throughput_per_second(self) -> float | None:
        """Jobs that leave it; None: too few have to say. Asked for, like what follows, only where it is shown."""
        return drain(self.cost_class.name)

    @property
    def retry_after_seconds(self) -> int:
        """What somebody would be told who was refused now."""
        if self.draining or self.paused:
            return RESUMED_IN_SECONDS
        return retry_after_seconds(self.cost_class, self.room)

    def wait_seconds(self, sure: float) -> float | None:
        """How long a job that comes now would wait at most with this probability, behind all others; None: that is not known."""
        departures = self.room.waiting + self.room.running + 1 - self.room.slots
        mean = costs.mean_seconds(self.cost_class.name)
        if self.paused or self.room.slots == 0 or (departures > 0 and mean is None):
            return None
        return capacity.start_seconds(departures, self.room.slots, mean or 0.0, sure)


def look_at_class(cost_class: str) -> ClassView:
    """As it is now."""
    declared = classes.get(cost_class)
    arguments: dict[str, Any] = {"cost_class": cost_class, "beat": beat()}
    with connection.cursor() as cursor:
        cursor.execute(_VIEW, arguments)
        workers, observed_at, waiting, running, slots, work_seconds, paused, draining, *live = cursor.fetchone()
    counted = Room(waiting, running, slots, work_seconds)
    now = declared.overridden(dict(zip(LIVE_LIMITS, live, strict=True)))
    return ClassView(now, counted, workers, observed_at, paused, draining)


_VIEW = f"""
SELECT (SELECT count(*) FROM live_nodes_v1(%(cost_class)s, %(beat)s)), statement_timestamp(), waiting, running, slots, work_seconds,
       control.paused_at IS NOT NULL, control.draining_at IS NOT NULL, {", ".join(f"control.{field}" for field in LIVE_LIMITS)}
FROM class_room_v1(%(cost_class)s, %(beat)s) LEFT JOIN jobs_classcontrol control ON control.cost_class = %(cost_class)s
"""

class_view: Callable[[str], ClassView] = Kept(look_at_class)


def class_views() -> list[ClassView]:
    return [class_view(name) for name in classes.declared()]


def oldest_waiting_seconds(cost_class: str) -> float:
    """Age of the job that has waited longest; 0 when none waits."""
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST_WAITING, [cost_class])
        return float(cursor.fetchone()[0])


_OLDEST_WAITING = """
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(accepted_at)), 0)
FROM jobs_job WHERE cost_class = %s AND state = 'queued'
"""


def sweep_ages() -> dict[str, float | None]:
    """Seconds since each sweep last ran; None if it never did."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, extract(epoch FROM clock_timestamp() - last_run_at)::float8 FROM jobs_sweep")
        return dict(cursor.fetchall())


def claimable(cost_class: str, types: Collection[str] | None = None) -> int:
    """Jobs that a free process could start now: of all types, or of those that a node knows."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIMABLE, {"cost_class": cost_class, "types": None if types is None else list(types)})
        return int(cursor.fetchone()[0])


# A job that a limit or an operator holds is none of them (P12, P14): it is woken by the end of what holds it, or by who lets it go.
_CLAIMABLE = """
SELECT count(*) FROM jobs_job, held_v1(%(cost_class)s) held
WHERE NOT limit_keys && held.keys AND client_id <> ALL(held.clients) AND cost_class = %(cost_class)s AND state = 'queued' AND available_at <= clock_timestamp()
  AND (start_by IS NULL OR start_by > clock_timestamp())
  AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s::text[]))
  AND type <> ALL (array(SELECT control.type FROM jobs_typecontrol control WHERE control.paused_at IS NOT NULL))
  AND NOT EXISTS (SELECT 1 FROM jobs_classcontrol control WHERE control.cost_class = %(cost_class)s AND control.paused_at IS NOT NULL)
"""


def live_jobs_of(client_id: int) -> tuple[int, int]:
    """How many jobs a client has waiting and running, and how many of them run."""
    holds_a_place = Q(state=State.RUNNING) | Q(start_by=None) | Q(start_by__gt=Now())
    live = Job.objects.filter(holds_a_place, client_id=client_id, state__in=LIVE)
    counts = live.aggregate(all=Count("pk"), running=Count("pk", filter=Q(state=State.RUNNING)))
    return counts["all"], counts["running"]


def job_of(client_id: int, job_id: Any) -> Job:
    """With its files. Raises Job.DoesNotExist also for another client's job: its existence is nobody else's business."""
    return artifacts.with_files(Job.objects.all()).get(pk=job_id, client_id=client_id)
