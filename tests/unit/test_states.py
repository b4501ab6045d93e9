"""The transition table: six states, terminal ones are final."""

import pytest

from jobs.states import LIVE, TERMINAL, TRANSITIONS, State


def test_six_states_and_each_is_live_or_terminal() -> None:
    assert len(State) == 6
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leaves_a_terminal_state(state: State) -> None:
    assert TRANSITIONS[state] == frozenset()


def test_a_job_never_ends_well_without_running() -> None:
    assert State.SUCCEEDED not in TRANSITIONS[State.QUEUED]
    assert State.SUCCEEDED in TRANSITIONS[State.RUNNING]
