"""ctx.http and ctx.fan_out, ended by a signal at any of their instants: nothing of them remains."""

import signal
from collections.abc import Callable
from functools import partial

import pytest

from tests.acceptance.slow_services import answering, connections_to, hanging
from tests.unit.http_calls import Stopped, no_thread_remains, services
from tests.waiting import eventually
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline
from workers.fanout import fan_out
from workers.http import Call, Http

__all__ = ["services"]


class Alarm:
    """Raises Stopped in the main thread, wherever that is, after a time, and again for so many times.

    The kernel may give the signal to any thread that does not block it; Python always runs the handler in the main one.
    """

    def __init__(self, times: int, taken_elsewhere: bool) -> None:
        self.times, self.raised = times, 0
        self._blocked_here = {signal.SIGALRM} if taken_elsewhere else set()

    def __call__(self, *_: object) -> None:
        if self.raised < self.times:
            self.raised += 1
            raise Stopped

    def check(self) -> None:
        """As ctx.check() will: Python drops what is raised while it runs a finalizer or a weak reference's callback."""
        if self.raised:
            raise Stopped

    def __enter__(self) -> "Alarm":
        self._before = signal.signal(signal.SIGALRM, self)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked_here)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._blocked_here)
        signal.signal(signal.SIGALRM, self._before)


@pytest.mark.timeout(180, method="thread")  # the other method uses the alarm
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("taken_elsewhere", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_an_exception_from_a_signal_handler_ends_the_calls_and_leaves_nothing(
    services, tmp_path, times, taken_elsewhere
):
    """At 60 instants of a fan-out, each later by 0.5 ms, some while it starts, some while it cleans up after the first."""
    quick, _ = services.add(answering())
    never_answers, counts = services.add(hanging)
    bulkhead = Bulkhead(tmp_path, "slow", 1)
    calls = {
        "quick": Call(quick),
        "slow": Call(never_answers, bulkhead=bulkhead),
        "waits": Call(quick, bulkhead=bulkhead),
    }
    for step in range(60):
        with Alarm(times, taken_elsewhere) as alarm:
            client = Http(Deadline.after(120), "job", job_retries=False, check=alarm.check)
            interrupted_within(alarm, 0.0005 * (step + 1), partial(fan_out, calls, 30.0, http=client))
        assert alarm.raised == times
        assert no_thread_remains()
        assert connections_to(quick, never_answers) == 0
        with bulkhead.hold(Deadline.after(0.5)):
            pass
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    assert counts.connections > 5, "hardly any fan-out got as far as a connection"


def interrupted_within(alarm: Alarm, seconds: float, work: Callable[[], object]) -> None:
    """The first exception ends the work; a second may come on its heels, or after it."""
    with pytest.raises(Stopped):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, 0.001)
            work()
        except Stopped:
            eventually(lambda: alarm.raised == alarm.times, every_seconds=0.001)
            raise
