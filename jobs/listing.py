"""Pages of one client's jobs, newest first. Each goes on where the last one ended, so the thousandth costs what the first did."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from jobs.models import Job
from jobs.states import State

# A filter that few jobs pass makes short pages, not long waits: what lies further back comes with the next page.
LOOKED_AT = 20_000


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
