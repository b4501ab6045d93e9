"""What stands of what operators may change: each value, where it comes from, and who set it last."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from jobs import classes
from jobs.classes import LIVE_LIMITS, CostClass
from jobs.control.changing import SWITCHES
from jobs.models import ApiClient, ClassControl, ControlChange, TypeControl


@dataclass(frozen=True)
class Setting:
    """One switch or limit. source: `operator`, or, of what no operator has set, `environment`, `settings` or `default`. last: who set it last, or took it back."""

    field: str
    value: Any
    declared: Any  # without an operator
    source: str
    last: ControlChange | None


@dataclass(frozen=True)
class Subject:
    """A class, a job type or a client."""

    kind: str
    name: str
    settings: tuple[Setting, ...]


def everything() -> list[Subject]:
    """All classes, and those types and clients of which an operator has changed something that still stands."""
    latest = _latest()
    rows = {row.pk: row for row in ClassControl.objects.all()}
    return [
        *(_class(declared, rows.get(name), latest) for name, declared in classes.declared().items()),
        *(
            _switches("type", row.type, row, latest)
            for row in TypeControl.objects.order_by("type")
            if row.paused_at or row.refused_at
        ),
        *(
            _switches("client", row.name, row, latest)
            for row in ApiClient.objects.filter(suspended_at__isnull=False).order_by("name")
        ),
    ]


def held_back() -> dict[tuple[str, str], int]:
    """How many job types are paused or refused, and how many clients suspended: by kind and switch."""
    types = TypeControl.objects.aggregate(paused=Count("paused_at"), refused=Count("refused_at"))
    suspended = ApiClient.objects.filter(suspended_at__isnull=False).count()
    return {**{("type", how): count for how, count in types.items()}, ("client", "suspended"): suspended}


def switches_of(kind: str, name: str) -> dict[str, Any]:
    """Of a job type or a client, by its name: each switch, on or off."""
    row: Any = TypeControl.objects.filter(pk=name).first() if kind == "type" else ApiClient.objects.get(name=name)
    return {"name": name, **{one.field: one.value for one in _switches(kind, name, row, {}).settings}}


def one_class(name: str) -> Subject:
    return _class(classes.get(name), ClassControl.objects.filter(pk=name).first(), _latest(kind="class", name=name))


_Latest = dict[tuple[str, str, str], ControlChange]


def _latest(**of: str) -> _Latest:
    changes = (
        ControlChange.objects.filter(**of).order_by("kind", "name", "field", "-id").distinct("kind", "name", "field")
    )
    return {(one.kind, one.name, one.field): one for one in changes}


def _class(declared: CostClass, row: ClassControl | None, latest: _Latest) -> Subject:
    switches = _switches("class", declared.name, row, latest).settings
    limits = (_limit(declared, row, field, latest.get(("class", declared.name, field))) for field in LIVE_LIMITS)
    return Subject("class", declared.name, (*switches, *limits))


def _limit(declared: CostClass, row: ClassControl | None, field: str, last: ControlChange | None) -> Setting:
    overridden = row is not None and getattr(row, field) is not None
    now = declared if row is None else declared.overridden({name: getattr(row, name) for name in LIVE_LIMITS})
    source = "operator" if overridden else classes.source(declared.name, field)
    return Setting(field, now.live(field), declared.live(field), source, last)


def _switches(kind: str, name: str, row: Any, latest: _Latest) -> Subject:
    return Subject(kind, name, tuple(_switch(row, field, latest.get((kind, name, field))) for field in SWITCHES[kind]))


def _switch(row: Any, field: str, last: ControlChange | None) -> Setting:
    on = row is not None and getattr(row, f"{field}_at") is not None
    return Setting(field, on, False, "operator" if on else "default", last)
