"""The memory between a keeper and its children, with real processes."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from workers.slots import FD_VARIABLE, OwnSlot, Phase, SharedSlots


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedSlots]:
    slots = SharedSlots.create(processes=2)
    monkeypatch.setenv(FD_VARIABLE, str(slots.fd))
    yield slots
    os.close(slots.fd)


class _Child:
    """A forked process that takes a slot, does as it is told, and stays until it is let go."""

    def __init__(self, work: Callable[[OwnSlot], None] = lambda slot: None) -> None:
        done, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            slot = OwnSlot(SharedSlots.inherited())
            work(slot)
            os.write(tell, b"\n")
            signal.pause()
        os.read(done, 1)
        os.close(done)
        os.close(tell)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def test_each_child_has_a_slot_of_its_own(shared: SharedSlots) -> None:
    children = [_Child(lambda slot: slot.begin(7)) for _ in range(4)]
    assert sorted(seen.pid for seen in shared.all()) == sorted(child.pid for child in children)
    for child in children:
        child.end()


def test_the_slot_of_a_dead_child_is_taken_again_and_emptied(shared: SharedSlots) -> None:
    first = _Child(lambda slot: slot.begin(7))
    first.end()
    assert [(seen.pid, seen.token) for seen in shared.all()] == [(first.pid, 7)]
    second = _Child()
    assert [(seen.pid, seen.token) for seen in shared.all()] == [(second.pid, 0)]
    second.end()


def test_a_cancel_reaches_the_attempt_it_is_meant_for_and_no_other(shared: SharedSlots) -> None:
    slot = OwnSlot(shared)
    slot.begin(7)
    shared.ask_to_cancel(next(shared.all()))
    assert slot.cancelled
    slot.clear()
    slot.begin(8)
    assert not slot.cancelled


def test_a_late_cancel_of_the_last_attempt_does_not_hit_the_next(shared: SharedSlots) -> None:
    slot = OwnSlot(shared)
    slot.begin(7)
    seen = next(shared.all())
    slot.clear()
    slot.begin(8)
    shared.ask_to_cancel(seen)
    assert not slot.cancelled


def test_between_attempts_nothing_is_cancelled(shared: SharedSlots) -> None:
    assert not OwnSlot(shared).cancelled


def test_phases_are_seen_by_the_keeper(shared: SharedSlots) -> None:
    slot = OwnSlot(shared)
    assert next(shared.all()).phase is Phase.IDLE
    slot.begin(7)
    assert next(shared.all()).phase is Phase.RUNNING
    slot.settle()
    assert next(shared.all()).phase is Phase.SETTLING
    assert shared.of(os.getpid(), 7) is not None
    assert shared.of(os.getpid(), 8) is None


def test_starts_are_counted_over_attempts(shared: SharedSlots) -> None:
    slot = OwnSlot(shared)
    for token in (7, 8):
        slot.clear()
        slot.begin(token)
    assert (shared.starts, shared.busy) == (2, 1)


def test_stopping_is_told_to_all(shared: SharedSlots) -> None:
    assert not SharedSlots.inherited().stopping
    shared.say_stopping()
    assert SharedSlots.inherited().stopping
