"""What happened, one frozen value per happening. `at` is this machine's monotonic clock in seconds.

A call of a client is invoked once and has one outcome; `call` ties them together.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

MISSING = "missing"  # the state of a job that was answered 404


@dataclass(frozen=True)
class SubmitInvoked:
    """`submission` names the work asked for and travels as a label of the job; calls with one `key` share it."""

    call: str
    submission: str
    at: float
    key: str = ""


@dataclass(frozen=True)
class SubmitAccepted:
    """Answered 202, or 200 by a request that waited."""

    call: str
    job_id: str
    status: int
    at: float


@dataclass(frozen=True)
class SubmitRefused:
    """Answered anything else. `code` is the problem's, empty if there was none. `crowded`: of share_full, whether the answer itself says that shares may be held to."""

    call: str
    status: int
    code: str
    at: float
    crowded: bool | None = None


@dataclass(frozen=True)
class SubmitUnsent:
    """No connection was made, so nobody can have read it."""

    call: str
    why: str
    at: float


@dataclass(frozen=True)
class SubmitUnknown:
    """Sent, and the connection ended before an answer: it may have been accepted or not."""

    call: str
    why: str
    at: float


@dataclass(frozen=True)
class CancelInvoked:
    call: str
    job_id: str
    at: float


@dataclass(frozen=True)
class CancelAnswered:
    """`state` and `cancel_requested_at` are of the job in the answer, empty if it held none."""

    call: str
    job_id: str
    status: int
    state: str
    cancel_requested_at: str
    at: float


@dataclass(frozen=True)
class CancelUnknown:
    call: str
    job_id: str
    why: str
    at: float


@dataclass(frozen=True)
class BodyBegan:
    """`alone`: no other body of this job was alive, by a lock that the kernel releases when one dies.

    `name` is the one that a test gave the job, if it gave one.
    """

    job_id: str
    attempt: int
    pid: int
    alone: bool
    at: float
    name: str = ""


@dataclass(frozen=True)
class BodyEnded:
    """`how`: `returned`, or the class name of what it raised. A body that was killed has no end."""

    job_id: str
    attempt: int
    pid: int
    how: str
    at: float


@dataclass(frozen=True)
class JobObserved:
    """A read of a job, asked at `asked_at` and answered at `at`; `state` may be MISSING."""

    job_id: str
    state: str
    error_code: str
    finished_at: str
    asked_at: float
    at: float


@dataclass(frozen=True)
class ClassObserved:
    cost_class: str
    waiting: int
    running: int
    at: float


@dataclass(frozen=True)
class NemesisBegan:
    """Written before it acts. `act`: kill, term, pause, restart, stop, flush, cut. `pids`: every process it means to hit."""

    strike: str
    nemesis: str
    act: str
    pids: tuple[int, ...]
    at: float


@dataclass(frozen=True)
class NemesisHit:
    """It was seen to have had its effect."""

    strike: str
    evidence: str
    at: float


@dataclass(frozen=True)
class NemesisEnded:
    """What it did is undone or over."""

    strike: str
    at: float


Event = (
    SubmitInvoked
    | SubmitAccepted
    | SubmitRefused
    | SubmitUnsent
    | SubmitUnknown
    | CancelInvoked
    | CancelAnswered
    | CancelUnknown
    | BodyBegan
    | BodyEnded
    | JobObserved
    | ClassObserved
    | NemesisBegan
    | NemesisHit
    | NemesisEnded
)
SubmitOutcome = SubmitAccepted | SubmitRefused | SubmitUnsent | SubmitUnknown

_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in Event.__args__}


def to_line(event: Event) -> str:
    """One line of JSON, without its end."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}, separators=(",", ":"))


def begin_of_line(kind: type[Event]) -> str:
    """Tells the lines of one type from the others without reading them."""
    return f'{{"event":"{kind.__name__}",'


def from_line(line: str) -> Event:
    """Raises ValueError for a line that is not whole, and for an event that is not known."""
    fields: dict[str, Any] = json.loads(line)
    kind = _TYPES.get(fields.pop("event", ""))
    if kind is None:
        raise ValueError(f"not an event: {line[:200]}")
    whole: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return kind(**whole)
