"""What races ask past HTTP and past the workers, recorded like calls and bodies, for the checker to judge."""

import itertools
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from jobs import admission, lifecycle
from jobs.admission import Admitted, Rejected, Replayed
from jobs.door.submission import Submission
from jobs.lifecycle import Claim, Outcome
from jobs.models import Attempt, Job, WorkerNode
from jobs.states import State
from tests import job_rows
from tests.history import rows
from tests.history.checker import check
from tests.history.crowding import crowded
from tests.history.events import (
    BodyBegan,
    CancelAnswered,
    CancelInvoked,
    NemesisBegan,
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
        return SubmitRefused(call, _STATUS.get(answer.reason, 503), answer.reason, now(), crowded(_as_told(answer)))
    return SubmitAccepted(call, str(answer.job.pk), 202, now())


def _as_told(answer: Rejected) -> dict[str, object]:
    """What the API would say of the class."""
    cost_class, room = answer.cost_class, answer.room
    if room is None:
        return {}
    limits = {"max_waiting": cost_class.max_waiting, "max_backlog_seconds": cost_class.backlog_seconds}
    depth = {"waiting": room.waiting, "running": room.running, "slots": room.slots}
    share = answer.share
    kept = {"share_kept": share.kept, "share_kept_seconds": share.kept_seconds} if share else {}
    return {"code": answer.reason, **limits, **depth, **kept, "backlog_seconds": cost_class.backlog_of(room)}


def cancel(history: Path, job_id: UUID) -> State | None:
    told, call = History(history), _call()
    told.append(CancelInvoked(call, str(job_id), now()))
    state = lifecycle.cancel(job_id)
    after = Job.objects.get(pk=job_id)
    status = {None: 409, State.CANCELLED: 200}.get(state, 202)
    asked = after.cancel_requested_at.isoformat() if after.cancel_requested_at else ""
    told.append(CancelAnswered(call, str(job_id), status, after.state, asked, now()))
    return state


def claim(history: Path, node: WorkerNode, cost_class: str) -> Claim | None:
    """As a process of its own that begins the body at once."""
    claimant = job_rows.a_claimant(node)
    claimed = job_rows.claim(node, cost_class, by=claimant)
    if claimed:
        History(history).append(BodyBegan(str(claimed.job_id), claimed.attempt, claimant.pid, True, now()))
    return claimed


def lose(history: Path, claimed: Claim) -> State | None:
    given_up(history, [claimed.job_id])
    return lifecycle.lose(claimed.job_id, claimed.attempt)


def release(history: Path, claimed: Claim) -> State | None:
    _struck(history, [claimed.job_id], "stop")
    return lifecycle.release(claimed.job_id, claimed.attempt)


def given_up(history: Path, jobs: Iterable[UUID]) -> None:
    """To be said before the processes of these jobs are taken for dead: it is the cause of what is lost then."""
    _struck(history, jobs, "kill")


def _struck(history: Path, jobs: Iterable[UUID], act: str) -> None:
    pids = Attempt.objects.filter(job__in=jobs, finished_at=None).values_list("pid", flat=True)
    History(history).append(NemesisBegan(_call(), "by hand", act, tuple(pids), now()))


def _call() -> str:
    return f"{os.getpid()}-{next(_numbers)}"


def judge(history: Path, database_url: str) -> None:
    """What still waits is cancelled first, and recorded too; what still runs fails."""
    for job in Job.objects.filter(state="queued"):
        cancel(history, job.pk)
    for job in Job.objects.filter(state="running"):
        lifecycle.settle(job.pk, job.attempt, Outcome(State.FAILED, error_code="handler_error"))
    check(History(history).events(), rows.read(database_url)).must_hold()
