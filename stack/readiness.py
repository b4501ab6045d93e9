"""When a stack is ready: every program up, /readyz 200, every class with all its slots. And what is missing until then."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field

from stack.http_calls import Caller
from stack.supervision import Status

# Starts of one program, all failed, after which waiting longer is pointless.
HOPELESS_STARTS = 4


@dataclass(frozen=True)
class Missing:
    """What a stack still lacks, in words, and the program whose log tells more."""

    what: str
    program: str


@dataclass
class StartsSeen:
    """Counts the starts of each program, to tell one that is slow from one that keeps ending."""

    starts: dict[str, set[int]] = field(default_factory=dict)

    def hopeless(self, statuses: Mapping[str, Status]) -> str | None:
        """The name of a program that keeps ending or was given up, if there is one."""
        for status in statuses.values():
            seen = self.starts.setdefault(status.name, set())
            if status.started:
                seen.add(status.started)
            if status.state == "FATAL" or (len(seen) >= HOPELESS_STARTS and status.state == "BACKOFF"):
                return status.name
        return None


def first_missing(
    statuses: Mapping[str, Status], started: list[str], classes: Mapping[str, int], caller: Caller | None
) -> Missing | None:
    """The first thing that keeps the stack from being ready; None when it is. `caller` is None for a stack without web."""
    for name in started:
        if statuses[name].state != "RUNNING":
            return Missing(f"{name} is {statuses[name].state.lower()}", name)
    if caller is None:
        return None
    try:
        return _web_missing(caller) or _slots_missing(caller, classes)
    except (OSError, http.client.HTTPException) as error:
        return Missing(f"the web server does not answer ({error})", "web")


def _web_missing(caller: Caller) -> Missing | None:
    reply = caller.get("/readyz")
    return None if reply.status == 200 else Missing(f"/readyz answers {reply.status}", "web")


def _slots_missing(caller: Caller, classes: Mapping[str, int]) -> Missing | None:
    reply = caller.get("/api/v1/classes")
    if reply.status != 200 or not isinstance(reply.body, dict):
        return Missing(f"/api/v1/classes answers {reply.status}", "web")
    slots = {row["name"]: row["slots"] for row in reply.body["classes"]}
    for name, processes in classes.items():
        if slots.get(name, 0) != processes:
            return Missing(f"the class {name} has {slots.get(name, 0)} of {processes} slots", f"worker-{name}")
    return None
