"""The checks in their order (P7): authenticated and read it is already; then its key, its client's rate, whether it is a job at all, and admission."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from jobs import admission, lifecycle, queries, telemetry
from jobs.admission import Admitted, Rejected, Replayed
from jobs.door import idempotency, quotas
from jobs.door.idempotency import Idempotency
from jobs.door.quotas import Rate
from jobs.door.submission import Submission
from jobs.models import ApiClient, Job
from jobs.states import State


@dataclass(frozen=True)
class RateLimited:
    """The client submits more often than an operator lets it; nothing was looked at further."""

    limit: int  # submits a minute
    retry_after_seconds: int
    reason: Literal["rate_limited"] = "rate_limited"
    retryable: Literal[True] = True


Answer = Admitted | Replayed | Rejected | RateLimited


@dataclass(frozen=True)
class Entered:
    """The answer, and where the client stands with its rate, if it was counted against one."""

    answer: Answer
    rate: Rate | None = None


def come_in(
    client: ApiClient,
    key: Idempotency | None,
    submission: Callable[[], Submission],
    *,
    counted: bool = False,
    admitting: AbstractContextManager[None] | None = None,
) -> Entered:
    """Ask for one job. Raises what `submission` and admission raise, and Mismatch.

    submission: what makes it of what was asked; called when it is its turn. counted: the client's rate has let it through before, and is not asked
    again. admitting: entered around what may be carried out although its answer is lost.
    """
    if key is not None and (known := idempotency.job_under(client.pk, key)) is not None:
        return Entered(Replayed(_as_it_is(known)))
    rate = None if counted else quotas.count_submit(client)
    if rate is not None and not rate.allowed:
        telemetry.RATE_LIMITED.inc()
        return Entered(RateLimited(rate.limit, rate.more_in_seconds), rate)
    asked_for = submission()
    with admitting or nullcontext():
        answer = admission.submit(asked_for)
    return Entered(Replayed(_as_it_is(answer.job)) if isinstance(answer, Replayed) else answer, rate)


def _as_it_is(job: Job) -> Job:
    """Expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        return queries.job_of(job.client_id, job.pk)
    return job
