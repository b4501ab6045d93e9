"""The one way in, for one job and for many: the checks in their order (P7). Authenticated and read it is already; then its key, its client's rate,
whether it is a job at all, and admission. What a suspended client sends is refused by admission, and not for its rate.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from jobs import admission, batches, lifecycle, queries, telemetry
from jobs.admission import Admitted, Rejected, Replayed
from jobs.batches import BatchAdmitted, BatchRejected, BatchReplayed, BatchSubmission
from jobs.door import idempotency, quotas
from jobs.door.idempotency import Idempotency
from jobs.door.quotas import Rate
from jobs.door.submission import Submission
from jobs.models import ApiClient, Job
from jobs.states import State

A = TypeVar("A")


@dataclass(frozen=True)
class RateLimited:
    """The client submits more often than an operator lets it; nothing was looked at further."""

    limit: int  # submits a minute
    retry_after_seconds: int
    reason: Literal["rate_limited"] = "rate_limited"
    retryable: Literal[True] = True


@dataclass(frozen=True)
class NeverTogether:
    """More jobs, all or none, than the client may ever submit in a minute, or have at once; nothing was looked at further."""

    jobs: int
    most: int
    quota: Literal["submits_per_minute", "max_jobs"]


Answer = Admitted | Replayed | Rejected | RateLimited
BatchAnswer = BatchAdmitted | BatchReplayed | BatchRejected | RateLimited | NeverTogether


@dataclass(frozen=True)
class Entered(Generic[A]):
    """The answer, and where the client stands with its rate, if it was counted against one."""

    answer: A
    rate: Rate | None = None


def come_in(
    client: ApiClient,
    key: Idempotency | None,
    submission: Callable[[], Submission],
    *,
    counted: bool = False,
    admitting: AbstractContextManager[None] | None = None,
) -> Entered[Answer]:
    """Ask for one job. Raises what `submission` and admission raise, and Mismatch.

    submission: what makes it of what was asked; called when it is its turn. counted: the client's rate has let it through before, and is not asked
    again. admitting: entered around what may be carried out although its answer is lost.
    """
    if key is not None and (known := idempotency.job_under(client.pk, key)) is not None:
        return Entered(Replayed(_as_it_is(known)))
    rate = None if counted or client.suspended_at is not None else quotas.count_submit(client)
    if rate is not None and not rate.allowed:
        return Entered(_limited(rate), rate)
    asked_for = submission()
    with admitting or nullcontext():
        answer = admission.submit(asked_for)
    return Entered(Replayed(_as_it_is(answer.job)) if isinstance(answer, Replayed) else answer, rate)


def come_in_together(
    client: ApiClient,
    key: Idempotency | None,
    jobs: int,
    submission: Callable[[int | None], BatchSubmission],
    *,
    atomic: bool,
    admitting: AbstractContextManager[None] | None = None,
) -> Entered[BatchAnswer]:
    """Ask for so many jobs at once, each of which counts; of those that are not `atomic` as many may pass as the client's rate has left.

    As `come_in`. submission: is given how many those are; None for all. A batch that came before is not looked at here.
    """
    if key is not None and (known := idempotency.batch_under(client.pk, key)) is not None:
        return Entered(BatchReplayed(known))
    suspended = client.suspended_at is not None
    if atomic and not suspended and (never := _never_together(client, jobs)) is not None:
        return Entered(never)
    rate = None if suspended else quotas.count_submit(client, jobs, some=not atomic)
    if rate is not None and not rate.allowed:
        return Entered(_limited(rate), rate)
    asked_for = submission(None if rate is None else rate.passed)
    with admitting or nullcontext():
        answer = batches.submit(asked_for)
    return Entered(answer, rate)


def _limited(rate: Rate) -> RateLimited:
    telemetry.RATE_LIMITED.inc()
    return RateLimited(rate.limit, rate.more_in_seconds)


def _never_together(client: ApiClient, jobs: int) -> NeverTogether | None:
    if client.submits_per_minute is not None and jobs > client.submits_per_minute:
        return NeverTogether(jobs, client.submits_per_minute, "submits_per_minute")
    if client.max_jobs is not None and jobs > client.max_jobs:
        return NeverTogether(jobs, client.max_jobs, "max_jobs")
    return None


def _as_it_is(job: Job) -> Job:
    """Expired first if it is past its start_by, so that every answer is a stored truth (P2)."""
    if job.state == State.QUEUED and lifecycle.expire(job.pk):
        return queries.job_of(job.client_id, job.pk)
    return job
