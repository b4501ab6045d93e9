"""Rows as tests need them: a caller, a live node, jobs in a given state. Written past the door, so any state can be had."""

import itertools
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db.models.functions import Now

from jobs import lifecycle
from jobs.leases import Lease
from jobs.lifecycle import Claim, Claimant, Outcome
from jobs.models import ApiClient, Job, WorkerNode
from jobs.states import State

TYPE = "tests.any"
LEASE_SECONDS = 30.0
GRACE_SECONDS = 5.0

_pids = itertools.count(1_000_000)  # above every pid of this machine


def a_client(name: str = "tests") -> ApiClient:
    return ApiClient.objects.get_or_create(name=name)[0]


def a_node(
    cost_class: str = "light", processes: int = 2, types: tuple[str, ...] = (TYPE,), **fields: Any
) -> WorkerNode:
    """A node that beats: seen an hour from now, so that a slow test finds it live, unless `fields` say otherwise."""
    given = {"seen_at": Now() + timedelta(hours=1), **fields}
    return WorkerNode.objects.create(
        id=uuid4(), hostname="h", pid=1, cost_class=cost_class, processes=processes, types=list(types), **given
    )


def a_queued_job(cost_class: str = "light", **fields: Any) -> Job:
    given = {"type": TYPE, "admitted_bound": 1000, "timeout_seconds": 10.0, **fields}
    return read(Job.objects.create(client=a_client(), cost_class=cost_class, **given).pk)


def a_running_job(node: WorkerNode, cost_class: str = "light", **fields: Any) -> tuple[Job, Claim]:
    """A job that this node has claimed, and the claim. Nothing else may wait in the class."""
    job = a_queued_job(cost_class, **fields)
    claimed = claim(node, cost_class)
    assert claimed is not None and claimed.job_id == job.pk, "another job was waiting"
    return read(job.pk), claimed


def a_finished_job(state: State = State.SUCCEEDED, cost_class: str = "light", **fields: Any) -> Job:
    """Moved along the table by plain updates; `fields` (finished_at, accepted_at, …) are set with the last one."""
    job = a_queued_job(cost_class)
    row = Job.objects.filter(pk=job.pk)
    if state is not State.EXPIRED:
        row.update(state=State.RUNNING, attempt=1, started_at=Now(), lease_until=Now(), hard_deadline=Now())
    row.update(**{"state": state, "finished_at": Now(), "lease_until": None, "hard_deadline": None, **fields})
    return read(job.pk)


def a_claimant(node: WorkerNode) -> Claimant:
    """A child process of the node that no other claimant of this session is."""
    return Claimant(node.pk, next(_pids), 1)


def claim(
    node: WorkerNode, cost_class: str = "light", types: tuple[str, ...] = (TYPE,), by: Claimant | None = None
) -> Claim | None:
    return lifecycle.claim(by or a_claimant(node), cost_class, list(types), LEASE_SECONDS, GRACE_SECONDS)


def succeed(claimed: Claim, result: object = None) -> State | None:
    return lifecycle.settle(claimed.job_id, claimed.attempt, Outcome(State.SUCCEEDED, result=result, run_seconds=0.1))


def requeue(job: Job, **fields: object) -> None:
    """running → queued, past the statement that does it, so that any row can be had."""
    Job.objects.filter(pk=job.pk).update(
        **{"state": State.QUEUED, "lease_until": None, "hard_deadline": None, "node": None, **fields}
    )


def later(seconds: float) -> Any:
    """An instant by the database's clock, as a column takes it."""
    return Now() + timedelta(seconds=seconds)


def read(job_id: UUID) -> Job:
    return Job.objects.get(pk=job_id)


def row(job_id: UUID) -> dict[str, Any]:
    """Every column, to see that nothing changed."""
    return dict(Job.objects.filter(pk=job_id).values().get())


def lease_of(claimed: Claim) -> Lease:
    return a_lease(claimed.job_id, claimed.attempt)


def a_lease(job_id: UUID, attempt: int) -> Lease:
    """As a keeper reads it; only what a renewal looks at is real."""
    return Lease(
        job_id=job_id,
        attempt=attempt,
        token=0,
        pid=0,
        process_started=0,
        type=TYPE,
        cost_class="light",
        request_id="",
        failures=0,
        max_attempts=1,
        remaining_seconds=None,
        hard_seconds=0.0,
        cancel_requested=False,
    )
