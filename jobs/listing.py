"""Pages of one client's jobs: newest first, or in the order in which they ended. Each goes on where the last one ended, so the thousandth costs what
the first did."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection
from django.db.models import Q, QuerySet

from jobs.models import Job
from jobs.states import State

# A filter that few jobs pass makes short pages, not long waits: what lies further back comes with the next page.
LOOKED_AT = 20_000
OPEN_SECONDS = 30.0  # a settle is one statement; a prune of a full batch takes a second


@dataclass(frozen=True)
class Filters:
    """What a job must be to be listed. Empty: anything."""

    states: tuple[State, ...] = ()
    type: str = ""
    cost_class: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    accepted_after: datetime | None = None

    @property
    def given(self) -> bool:
        return self != Filters()


@dataclass(frozen=True)
class Page:
    """`before` is the sequence from which to go on; None: there is nothing further back."""

    jobs: list[Job]
    before: int | None


def page(client_id: int, filters: Filters, before: int | None, size: int) -> Page:
    """At most `size` jobs admitted before the one of that sequence. Their params and results are not read."""
    theirs = Job.objects.filter(client_id=client_id).order_by("-sequence")
    if before is not None:
        theirs = theirs.filter(sequence__lt=before)
    last_looked_at = _last_looked_at(theirs) if filters.given else None
    if last_looked_at is not None:
        theirs = theirs.filter(sequence__gte=last_looked_at)
    found = list(_filtered(theirs, filters).defer("params", "result")[: size + 1])
    if len(found) > size:
        return Page(found[:size], found[size - 1].sequence)
    return Page(found, last_looked_at)


def _last_looked_at(theirs: QuerySet[Job]) -> int | None:
    """None when fewer are left than are looked at."""
    return theirs.values_list("sequence", flat=True)[LOOKED_AT - 1 : LOOKED_AT].first()


def _filtered(theirs: QuerySet[Job], filters: Filters) -> QuerySet[Job]:
    if filters.states:
        theirs = theirs.filter(state__in=filters.states)
    if filters.type:
        theirs = theirs.filter(type=filters.type)
    if filters.cost_class:
        theirs = theirs.filter(cost_class=filters.cost_class)
    if filters.labels:
        theirs = theirs.filter(labels__contains=filters.labels)
    if filters.accepted_after is not None:
        theirs = theirs.filter(accepted_at__gt=filters.accepted_after)
    return theirs


# ── In the order of their ends ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ended:
    """Where a reader of ends has come to: the last one that it was given."""

    finished_at: datetime
    sequence: int


def ended_since(client_id: int, after: Ended | None, size: int) -> list[Job]:
    """At most `size` jobs that ended after that one, oldest first, without params and results.

    What comes later never belongs before what was given: nothing is given that may have ended after a job whose end is not committed yet.
    """
    ended = Job.objects.filter(client_id=client_id, finished_at__lt=_horizon())
    if after is not None:
        later = Q(finished_at__gt=after.finished_at) | Q(sequence__gt=after.sequence)
        ended = ended.filter(later, finished_at__gte=after.finished_at)
    return list(ended.order_by("finished_at", "sequence").defer("params", "result")[:size])


def _horizon() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(_HORIZON, [OPEN_SECONDS])
        instant: datetime = cursor.fetchone()[0]
    return instant


# An end is stamped before it is committed. Whatever was stamped before the oldest open transaction that writes began is committed
# by now; one that has been open for longer than any change of a job holds nobody up.
_HORIZON = """
SELECT least(statement_timestamp(), min(xact_start)) FROM pg_stat_activity
WHERE datname = current_database() AND backend_xid IS NOT NULL
  AND xact_start > statement_timestamp() - make_interval(secs => %s)
"""
