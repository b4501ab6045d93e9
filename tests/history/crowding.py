"""What an answer that refuses for a share says of its class."""

from collections.abc import Mapping
from typing import Any


def crowded(answer: Mapping[str, Any]) -> bool | None:
    """P10a, by the members of a problem: no process free, and more than half of the places taken or a quarter of the work there, with those that are kept for the client's own
    turns. None for other refusals."""
    if answer.get("code") != "share_full":
        return None
    live = answer["waiting"] + answer["running"]
    by_places = 2 * (live + answer["share_kept"]) > answer["slots"] + answer["max_waiting"]
    kept_seconds = (answer["share_kept_seconds"] + 0.05) / max(1, answer["slots"])  # they are told to a tenth
    by_work = 4 * (answer["backlog_seconds"] + 0.05 + kept_seconds) > answer["max_backlog_seconds"]
    return bool(live >= answer["slots"] and (by_places or by_work))
