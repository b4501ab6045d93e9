"""Pause, drain and resume a class, override its limits; the same for one job type and one client. The one place that writes it.

Each change is one transaction with its record (ControlChange): who, when, from what to what, and why. What it lets go is woken after the commit (P14).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import Model
from django.db.models.functions import Now

from jobs import classes, queries, registry, sweeps
from jobs.classes import LIVE_LIMITS
from jobs.control import effective
from jobs.models import ApiClient, ClassControl, ControlChange, TypeControl
from jobs.ranges import WrongSetting
from jobs.row_locks import PATIENCE_SECONDS, not_waiting
from jobs.storable import holds_nul

log = structlog.get_logger(__name__)

WHY_LENGTH = 200
SWITCHES = {"class": ("paused", "draining"), "type": ("paused", "refused"), "client": ("suspended",)}


class WrongControl(ValueError):
    """What cannot be set. The text is a sentence that names the field, the value and what is allowed."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class UnknownSubject(LookupError):
    """There is no class, job type or client of that name."""

    def __init__(self, kind: str, name: str) -> None:
        what = {"class": "cost class", "type": "job type", "client": "client"}[kind]
        there_are = {"class": [*classes.declared()], "type": registry.names(), "client": []}[kind]
        known = f"; there are: {', '.join(there_are)}" if there_are else ""
        super().__init__(f"There is no {what} {ascii(name[:100])}{known}.")


@dataclass(frozen=True)
class Operator:
    """Who changes something: by which way, and called what there. why: in their own words, for the record."""

    way: str  # admin, API or command
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.way})"


def change_class(name: str, wanted: Mapping[str, Any], by: Operator) -> list[ControlChange]:
    """What was changed. wanted: `paused` and `draining`, and LIVE_LIMITS limits, of which None takes an override back.

    Under the class's lock (P6), so that once it has been answered no admission commits that was decided before. Raises UnknownSubject, WrongControl,
    and RowHeld when the lock is not granted within a second.
    """
    if name not in classes.declared():
        raise UnknownSubject("class", name)
    values = {field: checked("class", name, field, value) for field, value in wanted.items()}
    _checked_why(by)
    with not_waiting(PATIENCE_SECONDS):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:' || %s, 0))", [name])
        row, _ = ClassControl.objects.get_or_create(pk=name)
        return _changed("class", name, row, values, by)


def change_type(name: str, wanted: Mapping[str, Any], by: Operator) -> list[ControlChange]:
    """What was changed. wanted: `paused` and `refused`. Raises UnknownSubject, WrongControl and RowHeld."""
    if registry.get(name) is None and (holds_nul(name) or not TypeControl.objects.filter(pk=name).exists()):
        raise UnknownSubject("type", name)
    values = {field: checked("type", name, field, value) for field, value in wanted.items()}
    _checked_why(by)
    with not_waiting(PATIENCE_SECONDS):
        if any(values.values()):
            TypeControl.objects.get_or_create(pk=name)
        row = TypeControl.objects.select_for_update().filter(pk=name).first()
        return [] if row is None else _changed("type", name, row, values, by)


def change_client(name: str, wanted: Mapping[str, Any], by: Operator) -> list[ControlChange]:
    """What was changed. wanted: `suspended`. Raises UnknownSubject, WrongControl and RowHeld."""
    if holds_nul(name):
        raise UnknownSubject("client", name)
    values = {field: checked("client", name, field, value) for field, value in wanted.items()}
    _checked_why(by)
    with not_waiting(PATIENCE_SECONDS):
        row = ApiClient.objects.select_for_update(no_key=True).filter(name=name).first()
        if row is None:
            raise UnknownSubject("client", name)
        return _changed("client", name, row, values, by)


CHANGE: dict[str, Callable[[str, Mapping[str, Any], Operator], list[ControlChange]]] = {
    "class": change_class,
    "type": change_type,
    "client": change_client,
}


def checked(kind: str, name: str, field: str, value: Any) -> Any:
    """The value as it is stored. Raises WrongControl."""
    if field in SWITCHES[kind]:
        if not isinstance(value, bool):
            raise WrongControl(field, f"{field} of {kind} {name} is {value!r}, but must be true or false.")
        return value
    if kind != "class" or field not in LIVE_LIMITS:
        known = ", ".join((*SWITCHES[kind], *(LIVE_LIMITS if kind == "class" else ())))
        raise WrongControl(field, f"{field!r} is nothing that can be set of a {kind}; there are: {known}.")
    try:
        return None if value is None else classes.live_value(name, field, value)
    except WrongSetting as error:
        raise WrongControl(field, str(error)) from None


def _checked_why(by: Operator) -> None:
    if len(by.why) > WHY_LENGTH or holds_nul(by.why):
        raise WrongControl("why", f"why must be a text of at most {WHY_LENGTH} characters that can be stored.")


def _changed(kind: str, name: str, row: Model, wanted: Mapping[str, Any], by: Operator) -> list[ControlChange]:
    """The row and the records, written. What is as it is wanted already is left alone, and who set it."""
    stands = {field: _standing(kind, row, field) for field in wanted}
    differs = {field: value for field, value in wanted.items() if value != stands[field]}
    for field, value in differs.items():
        _set(kind, row, field, value)
    if differs:
        row.save(update_fields=[_column(kind, field) for field in differs])
    changes = [
        ControlChange(
            kind=kind, name=name, field=field, before=stands[field], after=value, changed_by=str(by), why=by.why
        )
        for field, value in differs.items()
    ]
    ControlChange.objects.bulk_create(changes)
    transaction.on_commit(lambda: _after(changes), robust=True)
    return changes


def _standing(kind: str, row: Model, field: str) -> Any:
    value = getattr(row, _column(kind, field))
    return value is not None if field in SWITCHES[kind] else value


def _set(kind: str, row: Model, field: str, value: Any) -> None:
    if field in SWITCHES[kind]:
        value = Now() if value else None
    setattr(row, _column(kind, field), value)


def _column(kind: str, field: str) -> str:
    return f"{field}_at" if field in SWITCHES[kind] else field


def _after(changes: list[ControlChange]) -> None:
    """Here at once, elsewhere within a second; and whoever may start now is woken."""
    effective.overrides.forget()  # type: ignore[attr-defined]
    queries.class_view.forget()  # type: ignore[attr-defined]
    for one in changes:
        log.info(
            "control_changed",
            kind=one.kind,
            name=one.name,
            field=one.field,
            before=one.before,
            after=one.after,
            by=one.changed_by,
        )
    if any(one.after is False for one in changes):
        sweeps.top_up()
