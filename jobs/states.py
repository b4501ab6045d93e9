"""The six states of a job and the moves between them. No queries, no Django.

`lifecycle/` is the only writer of a state (and `admission.py` of the first one); a trigger in the
database holds the same table, so that raw SQL cannot break it either (P37).
"""

from enum import StrEnum
from typing import Literal


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def terminal(self) -> bool:
        return self not in LIVE


LIVE = frozenset({State.QUEUED, State.RUNNING})
TERMINAL = frozenset(State) - LIVE

TRANSITIONS: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset(
        {
            State.RUNNING,  # a worker's claim
            State.CANCELLED,  # the caller or an operator
            State.EXPIRED,  # the expire sweep, or a read that meets it past its start_by
            State.FAILED,  # the expire sweep: it has run and its time is up (P26); or nobody knows its type (P27)
        }
    ),
    State.RUNNING: frozenset(
        {
            State.SUCCEEDED,  # the worker's settle
            State.FAILED,  # the worker's settle, its keeper, or the reaper
            State.CANCELLED,  # whoever settles after a cancel was answered (P20)
            State.QUEUED,  # given back: a retry, a release at shutdown, a lost worker
        }
    ),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}


Refusal = Literal[  # why no job was made
    "queue_full",
    "share_full",
    "type_unavailable",
    "unavailable",
    "deadline_infeasible",
    "deadline_unreachable",
    "idempotency_in_flight",
    "too_many_jobs",
    # Said by operators.
    "class_draining",
    "type_refused",
    "client_suspended",
    # Of items of a batch, and of a whole one.
    "rate_limited",
    "idempotency_mismatch",
    "batch_too_large",
]
StoppedBy = Literal["attempts", "budget", "no_time", "not_retryable"]  # why a failed attempt was the last one (P25)
