"""Cost classes: what settings declare, what the environment overrides, checked before anything runs; and what of it operators may override while it runs.

`COST_CLASSES` in settings maps a name to its numbers; `WEIGHBRIDGE_<CLASS>_<FIELD>` sets one of them
from the environment. Both go through the same ranges.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from django.conf import settings

from jobs import capacity
from jobs.capacity import Room
from jobs.decision import Bounds
from jobs.ranges import Range, Seconds, Whole, WrongSetting

CONTROL = "control"  # the queue of the sweeps; no job class may take its name
# First words of other variables: a class `web` would share WEIGHBRIDGE_WEB_PROCESSES with the web server.
RESERVED = frozenset(
    [
        "allowed",
        "attempt",
        "beat",
        "budget",
        "class",
        "cost",
        "data",
        "job",
        "keep",
        "keeper",
        "lease",
        "limit",
        "log",
        "max",
        "node",
        "on",
        "outbox",
        "port",
        "ready",
        "redis",
        "secret",
        "services",
        "slots",
        "stack",
        "stop",
        "sweep",
        "trusted",
        "web",
    ]
) | {CONTROL}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_DAY = 86_400
BACKLOG_SHARE = (
    0.8  # of the longest wait: a class that takes what it cannot start turns 503 into 202 and then `expired`
)

RANGES: dict[str, Range] = {
    "processes": Whole(1, 256),
    "max_waiting": Whole(0, 10_000),  # the count at admission is O(queue) (P2)
    "max_wait_seconds": Seconds(0.1, _DAY),
    "max_backlog_seconds": Seconds(0.1, _DAY),
    "timeout_seconds": Seconds(0.1, _DAY),
    "ceiling_seconds": Seconds(0.1, _DAY),
    "retry_after_seconds": Whole(1, 300),
    "params_bytes": Whole(1024, 16 * 1024 * 1024),
    "result_bytes": Whole(1024, 64 * 1024 * 1024),
    "nice": Whole(0, 19),
    "stop_grace_seconds": Seconds(0.1, _DAY),
}
# What operators may override while everything runs (jobs/control/). Not processes, which are not started by a number (P4), nor the ceiling, which
# running workers have in their Celery's own time limit (P30).
LIVE_LIMITS = ("max_waiting", "max_backlog_seconds", "max_wait_seconds", "timeout_seconds")


@dataclass(frozen=True)
class CostClass:
    """One class's limits. Durations in seconds, sizes in bytes."""

    name: str
    processes: int
    max_waiting: int
    max_wait_seconds: float
    timeout_seconds: float
    ceiling_seconds: float
    max_backlog_seconds: float | None = None  # None: BACKLOG_SHARE of max_wait_seconds
    retry_after_seconds: int = 5  # said when nothing has been measured yet
    params_bytes: int = 65_536  # larger input goes by reference
    result_bytes: int = 1_048_576
    nice: int = 10  # alone it halves a web request's p50 under load (P22)
    stop_grace_seconds: float | None = None  # None: as for all classes

    def backlog_of(self, room: Room) -> float:
        """The expected work before a job that comes now, in seconds of all slots together."""
        return capacity.backlog_seconds(room, self.processes)

    def free(self, room: Room) -> int:
        """Jobs that would be admitted now; none, however few there are, where these are enough work (P5)."""
        return 0 if self.backlog_of(room) > self.backlog_seconds else room.free(self.max_waiting)

    @property
    def bounds(self) -> Bounds:
        """What a decision goes by."""
        return Bounds(self.max_waiting, self.backlog_seconds, self.processes)

    @property
    def longest_queue_seconds(self) -> float:
        """What its processes take for a full waiting room, if every job takes its whole time-out."""
        return self.max_waiting * self.timeout_seconds / self.processes

    @property
    def backlog_seconds(self) -> float:
        """The most expected work that may wait before a job, in seconds of all its slots together (P5)."""
        return self.max_wait_seconds * BACKLOG_SHARE if self.max_backlog_seconds is None else self.max_backlog_seconds

    def overridden(self, numbers: Mapping[str, Any]) -> "CostClass":
        """With those of these LIVE_LIMITS numbers that are not None. The ceiling holds whatever it was when they were set."""
        given = {field: numbers[field] for field in LIVE_LIMITS if numbers.get(field) is not None}
        if "timeout_seconds" in given:
            given["timeout_seconds"] = min(given["timeout_seconds"], self.ceiling_seconds)
        return replace(self, **given) if given else self

    def live(self, field: str) -> int | float:
        """The value that counts of one of LIVE_LIMITS."""
        value: int | float = self.backlog_seconds if field == "max_backlog_seconds" else getattr(self, field)
        return value


@cache
def declared() -> dict[str, CostClass]:
    """Every class by name. Raises WrongSetting for the first number out of its range."""
    _refuse_unknown_variables(settings.COST_CLASSES, os.environ)
    return {name: _build(name, numbers, os.environ) for name, numbers in settings.COST_CLASSES.items()}


def get(name: str) -> CostClass:
    return declared()[name]


def live_value(name: str, field: str, value: object) -> int | float:
    """What an operator sets one of LIVE_LIMITS to, in the ranges that hold for settings. Raises WrongSetting."""
    called = f"{field} of class {name}"
    read: int | float = RANGES[field].read(called, value)
    ceiling = get(name).ceiling_seconds
    if field == "timeout_seconds" and read > ceiling:
        raise WrongSetting(called, value, f"at most the class's ceiling_seconds, {ceiling:g}")
    return read


def source(name: str, field: str) -> str:
    """Where a declared number comes from: `environment`, `settings` or `default`."""
    if variable(name, field) in os.environ:
        return "environment"
    return "settings" if field in settings.COST_CLASSES[name] else "default"


def stop_grace_seconds(name: str) -> float:
    """How long running jobs of the class, or sweeps, may go on once their worker is told to stop."""
    own = declared()[name].stop_grace_seconds if name in declared() else None
    return float(settings.WEIGHBRIDGE_STOP_GRACE_SECONDS if own is None else own)


def _build(name: str, numbers: Mapping[str, Any], environ: Mapping[str, str]) -> CostClass:
    if not _NAME.fullmatch(name) or name.partition("_")[0] in RESERVED:
        reserved = ", ".join(sorted(RESERVED))
        raise WrongSetting(
            "A name in COST_CLASSES", name, f"lower-case letters, digits and _, and not begin with one of {reserved}"
        )
    unknown = set(numbers) - set(RANGES)
    if unknown:
        raise WrongSetting(f"COST_CLASSES[{name!r}]", min(unknown), f"one of {', '.join(RANGES)}")
    values = {
        field: _number(name, field, numbers, environ) for field in RANGES if _given(name, field, numbers, environ)
    }
    missing = {f.name for f in fields(CostClass) if f.default is MISSING} - values.keys() - {"name"}
    if missing:
        raise WrongSetting(f"COST_CLASSES[{name!r}]", sorted(numbers), f"a table that also has {min(missing)!r}")
    return _consistent(CostClass(name=name, **values))


def _given(name: str, field: str, numbers: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    return field in numbers or variable(name, field) in environ


def _number(name: str, field: str, numbers: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    from_environment = environ.get(variable(name, field))
    if from_environment is not None:
        return RANGES[field].read(variable(name, field), from_environment)
    return RANGES[field].read(f"COST_CLASSES[{name!r}][{field!r}]", numbers[field])


def variable(name: str, field: str) -> str:
    """The environment variable that sets `field` of class `name`."""
    return f"WEIGHBRIDGE_{name}_{field}".upper()


def _consistent(cost_class: CostClass) -> CostClass:
    for field in ("timeout_seconds", "stop_grace_seconds"):
        value = getattr(cost_class, field)
        if value is not None and value > cost_class.ceiling_seconds:
            allowed = f"at most the class's ceiling_seconds, {cost_class.ceiling_seconds:g}"
            raise WrongSetting(variable(cost_class.name, field), value, allowed)
    return cost_class


def variables() -> set[str]:
    """All that set a number of a class."""
    return {variable(name, field) for name in settings.COST_CLASSES for field in RANGES}


def _refuse_unknown_variables(names: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """A misspelt WEIGHBRIDGE_HEAVY_PROCESES, or WEIGHBRIDGE_HEVY_PROCESSES, would otherwise change nothing, silently."""
    known = variables()
    for given in environ:
        if given.startswith("WEIGHBRIDGE_") and given not in known and _means_a_class(given, names):
            (nearest,) = get_close_matches(given, sorted(known), n=1, cutoff=0.0)
            raise WrongSetting("The name of a variable", given, f"that of a class's setting, such as {nearest}")


def _means_a_class(given: str, names: Mapping[str, Any]) -> bool:
    """It begins with a declared class, or it ends in a number that only classes have."""
    rest = given.removeprefix("WEIGHBRIDGE_").lower()
    if any(rest.startswith(f"{name}_") for name in names):
        return True
    return rest.partition("_")[0] not in RESERVED and rest.endswith(tuple(f"_{field}" for field in RANGES))
