"""Judges what was recorded on a stack, once everything on it has ended."""

from collections.abc import Iterable
from contextlib import suppress

from stack.local import Stack
from tests.api_client import Api
from tests.history import rows
from tests.history.checker import check
from tests.history.events import ClassObserved, NemesisBegan, NemesisEnded, NemesisHit
from tests.history.nodes import slots
from tests.history.recorder import History
from tests.history.seen import Bounds, is_terminal
from tests.history.verdict import Verdict
from tests.waiting import eventually

DRAIN_SECONDS = 30.0  # the queues of these tests are short


def judged(history: History, stack: Stack, earlier: Iterable[History] = ()) -> Verdict:
    """`earlier` was recorded on this stack before: its jobs are in the rows, and only its nemeses explain them."""
    with suppress(AssertionError):  # the checker says what is left
        eventually(lambda: all(map(is_terminal, rows.read(stack.database_url).jobs)), DRAIN_SECONDS)
        _look_at_classes(history, stack)
    found = rows.read(stack.database_url)
    strangers = [f"{job.id} ({job.type})" for job in found.jobs if not job.submission]
    assert not strangers, f"submitted by a client that records nothing: {', '.join(strangers)}"
    strikes = [event for other in earlier for event in other.events(NemesisBegan, NemesisHit, NemesisEnded)]
    return check([*history.events(), *strikes], found, bounds_of(stack))


def _look_at_classes(history: History, stack: Stack) -> None:
    """Once more at each that was looked at: the last look is to see it empty."""
    with Api(stack.url, stack.key, history) as api:
        for name in {look.cost_class for look in history.events(ClassObserved) if isinstance(look, ClassObserved)}:
            api.drained(name)


def bounds_of(stack: Stack) -> Bounds:
    workers = [name for name in stack.programs() if name.startswith("worker-") and name != "worker-control"]
    return Bounds(
        lease_seconds=float(stack.environment.get("WEIGHBRIDGE_LEASE_SECONDS", Bounds.lease_seconds)),
        processes={name.removeprefix("worker-"): slots(stack, name) for name in workers},
    )
