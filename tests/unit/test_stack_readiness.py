"""Ready means: every program up, /readyz 200, every class with all its slots; until then it is named what is missing."""

from collections.abc import Mapping
from typing import cast

import pytest

from stack.http_calls import Caller, Reply
from stack.readiness import HOPELESS_STARTS, Missing, StartsSeen, first_missing
from stack.supervision import Status


class Answers:
    """A caller of a web server that is made up."""

    def __init__(self, readyz: int, slots: Mapping[str, int]) -> None:
        self._replies = {
            "/readyz": Reply(readyz, {}, {}, 0.0),
            "/api/v1/classes": Reply(
                200, {}, {"classes": [{"name": name, "slots": count} for name, count in slots.items()]}, 0.0
            ),
        }

    def get(self, path: str) -> Reply:
        return self._replies[path]


def _status(name: str, state: str = "RUNNING", started: int = 1) -> Status:
    return Status(name, "app", state, 1, started)


def _missing(states: Mapping[str, str], readyz: int = 200, slots: Mapping[str, int] | None = None) -> Missing | None:
    statuses = {name: _status(name, state) for name, state in states.items()}
    caller = cast(Caller, Answers(readyz, slots or {"light": 2, "heavy": 1}))
    return first_missing(statuses, list(states), {"light": 2, "heavy": 1}, caller)


UP = {"web": "RUNNING", "worker-light": "RUNNING"}


def test_all_up_is_ready() -> None:
    assert _missing(UP) is None


@pytest.mark.parametrize(
    ("states", "readyz", "slots", "what", "program"),
    [
        (UP | {"worker-light": "STARTING"}, 200, None, "worker-light is starting", "worker-light"),
        (UP, 503, None, "/readyz answers 503", "web"),
        (UP, 200, {"light": 1, "heavy": 1}, "the class light has 1 of 2 slots", "worker-light"),
        (UP, 200, {"light": 2}, "the class heavy has 0 of 1 slots", "worker-heavy"),
        # A node that is leaving may still count: not the stack that was asked for.
        (UP, 200, {"light": 3, "heavy": 1}, "the class light has 3 of 2 slots", "worker-light"),
    ],
)
def test_what_is_missing_is_named_with_the_log_to_read(
    states: Mapping[str, str], readyz: int, slots: Mapping[str, int] | None, what: str, program: str
) -> None:
    assert _missing(states, readyz, slots) == Missing(what, program)


def test_a_program_is_hopeless_after_several_failed_starts_and_not_before() -> None:
    seen = StartsSeen()
    for start in range(1, HOPELESS_STARTS):
        assert seen.hopeless({"web": _status("web", "BACKOFF", start)}) is None
        assert seen.hopeless({"web": _status("web", "BACKOFF", start)}) is None
    assert seen.hopeless({"web": _status("web", "BACKOFF", HOPELESS_STARTS)}) == "web"


def test_a_program_that_was_given_up_is_hopeless_at_once() -> None:
    assert StartsSeen().hopeless({"web": _status("web", "FATAL")}) == "web"
