"""Submits that go past HTTP, recorded like those of HTTP callers, for the checker to judge."""

import itertools
import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from jobs import admission, lifecycle
from jobs.admission import Admitted, Rejected, Replayed, Submission
from jobs.models import Job
from jobs.states import State
from tests.history import rows
from tests.history.checker import check
from tests.history.events import (
    CancelAnswered,
    CancelInvoked,
    SubmitAccepted,
    SubmitInvoked,
    SubmitOutcome,
    SubmitRefused,
)
from tests.history.recorder import SUBMISSION, History, now

_numbers = itertools.count(1)
_STATUS = {"idempotency_in_flight": 409, "deadline_infeasible": 422}  # as the API says it; the others are 503


def submit(history: Path, asked: Submission) -> Admitted | Replayed | Rejected:
    """Each call with its history's path: it is made in many processes."""
    told, call = History(history), _call()
    key = asked.idempotency.key if asked.idempotency else ""
    submission = f"{told.name}/{key or call}"
    told.append(SubmitInvoked(call, submission, now(), key))
    answer = admission.submit(replace(asked, labels={**asked.labels, SUBMISSION: submission}))
    told.append(_outcome(call, answer))
    return answer


def _outcome(call: str, answer: Admitted | Replayed | Rejected) -> SubmitOutcome:
    if isinstance(answer, Rejected):
        return SubmitRefused(call, _STATUS.get(answer.reason, 503), answer.reason, now())
    return SubmitAccepted(call, str(answer.job.pk), 202, now())


def cancel(history: Path, job_id: UUID) -> State | None:
    told, call = History(history), _call()
    told.append(CancelInvoked(call, str(job_id), now()))
    state = lifecycle.cancel(job_id)
    after = Job.objects.get(pk=job_id)
    status = {None: 409, State.CANCELLED: 200}.get(state, 202)
    asked = after.cancel_requested_at.isoformat() if after.cancel_requested_at else ""
    told.append(CancelAnswered(call, str(job_id), status, after.state, asked, now()))
    return state


def _call() -> str:
    return f"{os.getpid()}-{next(_numbers)}"


def judge(history: Path, database_url: str) -> None:
    """What still waits is cancelled first, and recorded too."""
    for job in Job.objects.filter(state="queued"):
        cancel(history, job.pk)
    check(History(history).events(), rows.read(database_url)).must_hold()
