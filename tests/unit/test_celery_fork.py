"""Celery's process is a fork of its keeper, and behaves as a program of its own would."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.processes import lives
from tests.waiting import eventually
from workers import kernel
from workers.celery_fork import Fork


@pytest.fixture
def told() -> Iterator[tuple[int, int]]:
    """A pipe for a fork to say something."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def _fails() -> None:
    raise RuntimeError("a sentence")


@pytest.mark.parametrize(
    ("act", "status"),
    [
        (lambda: None, 0),
        (lambda: sys.exit(), 0),
        (lambda: sys.exit(3), 3),
        (lambda: sys.exit("a sentence"), os.EX_SOFTWARE),
        (_fails, os.EX_SOFTWARE),
    ],
    ids=["returns", "exits", "exits with a status", "exits with a sentence", "raises"],
)
def test_it_ends_with_the_status_of_what_it_did_and_never_returns_to_us(act: Callable[[], None], status: int) -> None:
    fork = Fork.of(act)
    fork.wait()
    assert fork.poll() == fork.poll() == status
    fork.kill()  # nobody, also if its pid is another's by now


def test_it_is_in_a_session_of_its_own_and_hears_signals_though_we_handle_them(told: tuple[int, int]) -> None:
    """It leaves without the keeper's handlers, and without the descriptor that they ring."""
    hear, say = told
    awake, alarm = os.pipe2(os.O_NONBLOCK)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    rung = signal.set_wakeup_fd(alarm)
    try:
        fork = Fork.of(lambda: _say_and_stay(say))
        assert os.read(hear, 1) == b"\n"
        assert os.getsid(fork.pid) == fork.pid
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), "nor do we stay deaf"
        fork.terminate()
        fork.wait()
        assert fork.poll() == -signal.SIGTERM
        with pytest.raises(BlockingIOError):
            os.read(awake, 1)
    finally:
        signal.set_wakeup_fd(rung)
        signal.signal(signal.SIGTERM, before)
        os.close(awake)
        os.close(alarm)


def _say_and_stay(say: int) -> None:
    os.write(say, b"\n")
    signal.pause()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_before_it_has_begun_is_not_forgotten(number: int, told: tuple[int, int]) -> None:
    hear, say = told
    before = signal.signal(number, lambda *_: None)
    try:
        for _ in range(50):
            fork = Fork.of(lambda: _say_and_stay(say))
            os.kill(fork.pid, number)
            fork.wait()
            assert fork.poll() == -number
    finally:
        signal.signal(number, before)


WITH_A_FORK = """
import signal
from workers.celery_fork import Fork
print(Fork.of(signal.pause).pid, flush=True)
signal.pause()
"""


def test_it_dies_with_us() -> None:
    with subprocess.Popen([sys.executable, "-c", WITH_A_FORK], stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        eventually(lambda: kernel.run_state(pid) == "S")
        keeper.kill()
    eventually(lambda: not lives(pid))
