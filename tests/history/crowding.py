"""What an answer that refuses for a share says of its class."""

from collections.abc import Mapping
from typing import Any


def crowded(answer: Mapping[str, Any]) -> bool | None:
    """P10a, by the members of a problem: no process free, and more than half of the places taken or a quarter of the work there. None for other refusals."""
    if answer.get("code") != "share_full":
        return None
    live = answer["waiting"] + answer["running"]
    by_places = 2 * live > answer["slots"] + answer["max_waiting"]
    by_work = 4 * (answer["backlog_seconds"] + 0.05) > answer["max_backlog_seconds"]  # it is told to a tenth
    return bool(live >= answer["slots"] and (by_places or by_work))
