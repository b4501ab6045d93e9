"""Every move of a job after its admission. Each is one guarded statement; its row count is the verdict.

`claims.py` starts attempts, `attempts.py` ends them, `endings.py` ends jobs otherwise: cancelled, expired, of a type that nobody
knows. No other module writes `Job.state` but admission.py, at a job's birth.

Nothing is published here: whoever gives a job back sends its wake-up, or has it sent, since a keeper's main thread must
not wait for a broker (P14). Who wants to hear of ends connects to `ended`.

Raw SQL where one statement has to move a job and open or close its attempt, or return the row that it
changed: two statements would leave a gap for a killed process to stand in.
"""

from jobs.lifecycle.attempts import Outcome, Remains, lose, reap, release, retry, settle
from jobs.lifecycle.claims import HARD_DEADLINE_MARGIN_SECONDS, Claim, Claimant, claim
from jobs.lifecycle.endings import cancel, cancel_batch, expire, fail_unknown_types, withdraw, withdraw_batch
from jobs.lifecycle.moves import ended, ended_in_batch

__all__ = [
    "HARD_DEADLINE_MARGIN_SECONDS",
    "Claim",
    "Claimant",
    "Outcome",
    "Remains",
    "cancel",
    "cancel_batch",
    "claim",
    "ended",
    "ended_in_batch",
    "expire",
    "fail_unknown_types",
    "lose",
    "reap",
    "release",
    "retry",
    "settle",
    "withdraw",
    "withdraw_batch",
]
