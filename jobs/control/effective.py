"""A class as it is now: its limits as they were declared, and overridden by operators; and whether it is paused."""

from collections.abc import Callable, Mapping
from typing import Any

from jobs import classes
from jobs.classes import LIVE_LIMITS, CostClass
from jobs.kept import Kept
from jobs.models import ClassControl

# In which a process goes on with the limits that it knows: a change holds everywhere within a second, and a stream of submits asks twice in it. An
# admission stores the bound that it was decided on (P3), so two processes that know different limits for a moment break no promise.
KNOWN_FOR_SECONDS = 0.5
_ALL = "all classes"


def _ask(_: str) -> dict[str, dict[str, Any]]:
    return {row["cost_class"]: row for row in ClassControl.objects.values("cost_class", "paused_at", *LIVE_LIMITS)}


overrides: Callable[[str], Mapping[str, Mapping[str, Any]]] = Kept(_ask, KNOWN_FOR_SECONDS)


def now(cost_class: CostClass) -> CostClass:
    """Of a declared class. Costs a round trip, of all classes together, each half second."""
    return cost_class.overridden(overrides(_ALL).get(cost_class.name, {}))


def get(name: str) -> CostClass:
    return now(classes.get(name))


def is_paused(name: str) -> bool:
    """As this process knows it: to tell a caller what to expect. Claims look for themselves."""
    return overrides(_ALL).get(name, {}).get("paused_at") is not None
