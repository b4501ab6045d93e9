"""Histories made by hand, for the checker's own tests: a good one, told in the words of a story.

Database instants and monotonic instants run together here: `EPOCH` + the instant of an event.
"""

from dataclasses import replace
from typing import Any

from tests.history.checker import check
from tests.history.events import (
    BodyBegan,
    BodyEnded,
    CancelAnswered,
    CancelInvoked,
    ClassObserved,
    Event,
    JobObserved,
    NemesisBegan,
    NemesisEnded,
    NemesisHit,
    SubmitAccepted,
    SubmitInvoked,
    SubmitRefused,
    SubmitUnknown,
    SubmitUnsent,
)
from tests.history.rows import AttemptRow, JobRow, Rows
from tests.history.seen import Bounds
from tests.history.verdict import Verdict

EPOCH = 1_700_000_000.0
BOUND = 10


class Story:
    """Events and rows as they are told. Every teller returns what later lines refer to; `now` is the current instant."""

    def __init__(self, processes: dict[str, int] | None = None, unknown_share: float = 0.01) -> None:
        self.now = 100.0
        self.events: list[Event] = []
        self.jobs: dict[str, JobRow] = {}
        self.attempts: list[AttemptRow] = []
        self.bounds = Bounds(lease_seconds=3.0, processes=processes or {}, unknown_share=unknown_share)
        self._number = 0

    def verdict(self) -> Verdict:
        return check(self.events, Rows(tuple(self.jobs.values()), tuple(self.attempts), EPOCH), self.bounds)

    def told(self, kind: type[Any], *values: object, **fields: object) -> None:
        """One event, now; the next happens a tenth of a second later."""
        self.events.append(kind(*values, at=self.now, **fields))
        self.now += 0.1

    # --- submits ------------------------------------------------------------------------------------------------

    def invoked(self, key: str = "") -> str:
        """A submit; its call."""
        self._number += 1
        call = f"c-{self._number}"
        self.told(SubmitInvoked, call, f"story/{key or call}", key=key)
        return call

    def accepted(self, key: str = "", **fields: Any) -> str:
        """A submit that was accepted, and its row; the job's id."""
        call = self.invoked(key)
        job_id = self.row(f"story/{key or call}", **fields)
        self.told(SubmitAccepted, call, job_id, 202)
        return job_id

    def refused(self, status: int = 503, code: str = "queue_full", crowded: bool | None = None) -> str:
        call = self.invoked()
        self.told(SubmitRefused, call, status, code, crowded=crowded)
        return call

    def cut(self) -> str:
        call = self.invoked()
        self.told(SubmitUnknown, call, "cut")
        return call

    def unsent(self) -> str:
        call = self.invoked()
        self.told(SubmitUnsent, call, "refused")
        return call

    # --- rows ---------------------------------------------------------------------------------------------------

    def row(self, submission: str, **fields: Any) -> str:
        """A queued job, accepted now; its id."""
        job_id = f"j{len(self.jobs) + 1}"
        given = {"type": "tests.note", "cost_class": "light", "admitted_bound": BOUND, "attempt": 0, **fields}
        row = JobRow(job_id, submission, state="queued", error_code="", accepted_at=EPOCH + self.now, **given)
        self.jobs[job_id] = row
        return job_id

    def change(self, job_id: str, **fields: Any) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], **fields)

    def finish(self, job_id: str, state: str, code: str = "") -> None:
        """The row ends now, and with it its open attempt."""
        self.change(job_id, state=state, error_code=code, finished_at=EPOCH + self.now)
        self._close(job_id, state, code)

    def requeue(self, job_id: str, code: str = "worker_lost") -> None:
        self.change(job_id, state="queued")
        self._close(job_id, "released", code)

    def _close(self, job_id: str, outcome: str, code: str) -> None:
        self.attempts = [
            replace(attempt, finished_at=EPOCH + self.now, outcome=outcome, error_code=code)
            if attempt.job_id == job_id and attempt.finished_at is None
            else attempt
            for attempt in self.attempts
        ]
        self.now += 0.1

    # --- bodies -------------------------------------------------------------------------------------------------

    def claimed(self, job_id: str, pid: int = 7) -> int:
        """The attempt's number."""
        number = self.jobs[job_id].attempt + 1
        self.change(job_id, state="running", attempt=number)
        self.attempts.append(AttemptRow(job_id, number, pid, EPOCH + self.now))
        self.now += 0.1
        return number

    def began(self, job_id: str, pid: int = 7, attempt: int | None = None, alone: bool = True) -> None:
        self.told(BodyBegan, job_id, attempt or self.jobs[job_id].attempt, pid, alone)

    def ended(self, job_id: str, pid: int = 7, attempt: int | None = None, how: str = "returned") -> None:
        self.told(BodyEnded, job_id, attempt or self.jobs[job_id].attempt, pid, how)

    def ran(self, job_id: str, pid: int = 7) -> str:
        """Claimed, run and settled well."""
        self.claimed(job_id, pid)
        self.began(job_id, pid)
        self.ended(job_id, pid)
        self.finish(job_id, "succeeded")
        return job_id

    # --- what callers saw, and nemeses --------------------------------------------------------------------------

    def cancelled(self, job_id: str, status: int, state: str, instant: str = "12:00") -> None:
        """Asked for and answered; the row is not touched."""
        self.told(CancelInvoked, f"x-{len(self.events)}", job_id)
        self.told(CancelAnswered, f"x-{len(self.events)}", job_id, status, state, instant)

    def looked(self, job_id: str, state: str, code: str = "", finished_at: str = "") -> None:
        self.told(JobObserved, job_id, state, code, finished_at, asked_at=self.now - 0.05)

    def looked_at_class(self, waiting: int, running: int) -> None:
        self.told(ClassObserved, "light", waiting, running)

    def struck(self, act: str, *pids: int, lasting: float = 0.5) -> None:
        """By a nemesis that begins now and is over after `lasting` seconds; now is still its beginning."""
        strike = f"n{len(self.events)}"
        self.events += [
            NemesisBegan(strike, act, act, pids, self.now),
            NemesisHit(strike, "seen", self.now),
            NemesisEnded(strike, self.now + lasting),
        ]
        self.now += 0.1
