"""The first signal stops in order, a second one hurries."""

import os
import signal
from collections.abc import Iterator

import pytest

from stack.signals import StopRequested, StopSignals


@pytest.fixture
def signals() -> Iterator[StopSignals]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    installed = StopSignals()
    installed.install()
    yield installed
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_for_a_stop_and_only_the_second_hurries(
    signals: StopSignals, number: signal.Signals
) -> None:
    with pytest.raises(StopRequested):
        os.kill(os.getpid(), number)
    assert not signals.hurry()
    os.kill(os.getpid(), number)
    assert signals.hurry()


def test_while_stopping_nothing_is_interrupted(signals: StopSignals) -> None:
    signals.begin_stopping()
    os.kill(os.getpid(), signal.SIGINT)
    assert not signals.hurry()
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.hurry()
