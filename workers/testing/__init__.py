"""For authors' tests: run a handler without a server, without a database, and without waiting.

from workers.testing import FakeClock, run

def test_a_square():
    ran = run(square, {"n": 12})
    assert (ran.state, ran.result) == ("succeeded", {"square": 144})

Params are checked as the door checks them, results are shaped and retries decided as a worker does. Time is a FakeClock:
it passes when the test or the handler says so, and what a worker would raise in the handler is raised as it passes.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workers.retries import Again, Stop

if TYPE_CHECKING:
    from workers.artifacts import Kept
    from workers.fanout import CallOutcome

__all__ = [
    "Again",
    "FakeClock",
    "FannedOut",
    "OnceCall",
    "Progress",
    "Ran",
    "Stop",
    "answered",
    "failed",
    "late",
    "run",
    "upload_id",
]


@dataclass
class Alarm:
    """Something that happens at an instant of a FakeClock; it may raise."""

    at: float
    ring: Callable[[], None]


class FakeClock:
    """A clock that stands still until it is told. Seconds.

    tick: seconds that pass with each look at it, which a handler takes with ctx.check(), remaining() or progress(); so
        a handler that never sleeps comes to its limit too.

    Put it in the place of real time where the handler uses that: `monkeypatch.setattr("time.sleep", clock.sleep)`,
    `monkeypatch.setattr("time.monotonic", clock)`.
    """

    def __init__(self, now: float = 0.0, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick
        self.alarms: list[Alarm] = []

    def __call__(self) -> float:
        self.advance(self.tick)
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass. Inside a handler that `run` runs, raises JobTimeout or JobCancelled when that time comes, and
        no more time passes then, as a real sleep is cut short."""
        if not seconds >= 0:
            raise ValueError(f"A clock cannot advance by {seconds!r} seconds.")
        until = self.now + seconds
        while (alarm := self._first_due(until)) is not None:
            self.alarms.remove(alarm)
            self.now = max(self.now, alarm.at)
            alarm.ring()
        self.now = until

    def sleep(self, seconds: float) -> None:
        """In the place of time.sleep."""
        self.advance(seconds)

    def _first_due(self, until: float) -> Alarm | None:
        return min((alarm for alarm in self.alarms if alarm.at <= until), key=lambda alarm: alarm.at, default=None)


@dataclass(frozen=True)
class Progress:
    """One call of ctx.progress. `written`: whether a worker would have written it, which it does once a second."""

    fraction: float
    note: str
    written: bool


@dataclass(frozen=True)
class OnceCall:
    """One call of ctx.once. `happened`: its function ran, or its key alone was taken, now and not before."""

    key: str
    happened: bool


@dataclass(frozen=True)
class FannedOut:
    """One use of ctx.fan_out: the calls by name, the seconds until its deadline, the names that were required."""

    calls: Mapping[str, Any]
    seconds: float
    required: tuple[str, ...] = ()


def answered(data: Any = None, status: int = 200) -> "CallOutcome":
    """What a call brings in `run(…, fan_out={name: …})`: an answer with this data."""
    from workers.fanout import CallOutcome

    return CallOutcome(True, status, data)


def failed(error: str = "unavailable", status: int | None = 503, *, retryable: bool = True) -> "CallOutcome":
    """Or a failure: its code, the status if an answer came, whether another attempt of the job may help."""
    from workers.fanout import CallOutcome

    return CallOutcome(False, status, None, error, f"It failed with {error}.", retryable)


def late() -> "CallOutcome":
    """Or nothing before the deadline."""
    return failed("deadline_exceeded", None, retryable=False)


def upload_id(number: int = 1) -> str:
    """An id for `run(…, uploads={id: …})`, and for the params that name it; another one for each number."""
    return str(UUID(int=number))


@dataclass(frozen=True)
class Ran:
    """What became of one attempt.

    state: of the job after it: succeeded, failed, cancelled, or queued when it is to be tried again or was released.
    result: as a caller reads it. error_code, error_message, error_details: what a caller reads of a failure.
    exception: what the handler raised. decision: after a failure, Again(after_seconds), the longest that the backoff
    may be unless `draw` says otherwise, or Stop(stopped_by).
    seconds: that passed on the clock. killed: it did not end inside the grace, so its process was ended.
    progress, log, once, fan_outs: every call, in order; a log line is what was bound and said, with its level and event.
    artifacts: by name, the content_type and data of each file that the caller has; of an attempt that did not succeed there is none.
    """

    state: str
    result: Any = None
    error_code: str = ""
    error_message: str = ""
    error_details: Any = None
    exception: BaseException | None = None
    decision: Again | Stop | None = None
    attempt: int = 1
    failures: int = 0
    seconds: float = 0.0
    killed: bool = False
    progress: tuple[Progress, ...] = ()
    log: tuple[Mapping[str, Any], ...] = ()
    once: tuple[OnceCall, ...] = ()
    fan_outs: tuple[FannedOut, ...] = ()
    artifacts: "Mapping[str, Kept]" = field(default_factory=dict)
    memory: Any = field(default=None, repr=False, compare=False)  # what ctx.once has kept, for the next attempt


def longest(low: float, high: float) -> float:
    return high


def run(
    handler: str | Callable[..., Any],
    params: Any = None,
    *,
    timeout: float | None = None,
    deadline: float | None = None,
    attempt: int | None = None,
    after: Ran | None = None,
    clock: FakeClock | None = None,
    cancel_at: float | None = None,
    stop_at: float | None = None,
    http: Any = None,
    fan_out: "Mapping[str, CallOutcome] | Callable[..., Any] | None" = None,
    uploads: "Mapping[str, bytes | str | os.PathLike[str]] | None" = None,
    budget_left: bool = True,
    draw: Callable[[float, float], float] = longest,
) -> Ran:
    """Run one attempt of a handler, given itself or by its type's name.

    timeout: seconds the attempt may run; its type's or class's unless said. deadline: seconds left to the job's deadline.
    after: the attempt before, whose failures and once keys count; attempt: its number, else the next one.
    cancel_at, stop_at: seconds after the start at which the job is cancelled, or its worker is told to stop.
    http: what the handler finds as ctx.http. fan_out: what its calls bring, by name, as `answered`, `failed` and `late` make it;
        a required one that failed raises RequiredCallFailed, as a worker would. Or a function in the place of ctx.fan_out.
    uploads: what the handler finds by ctx.open_upload, by id (see upload_id): bytes, or the path of a file.
    budget_left: whether the node has a retry left.
    draw: the random number between two bounds that spaces retries.

    Raises workers.by_hand.Refused, a ValueError, for a type, params or times that the door would refuse. Whatever
    the handler raises is in what is returned.
    """
    _set_up_django()
    from workers.testing.trials import Arranged, Trial  # only now: it needs Django set up

    number = attempt if attempt is not None else 1 if after is None else after.attempt + 1
    asked = Arranged(
        timeout, deadline, number, after, cancel_at, stop_at, http, fan_out, uploads or {}, budget_left, draw
    )
    return Trial(handler, {} if params is None else params, asked, clock or FakeClock()).run()


def _set_up_django() -> None:
    """Settings only, for cost classes; no server is looked for."""
    import django
    from django.apps import apps

    if not apps.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
        django.setup()
