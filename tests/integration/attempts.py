"""Attempts run in this process, which plays the child of a node."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from jobs import registry
from jobs.lifecycle import Claim, Claimant
from jobs.models import Attempt, Job, WorkerNode
from jobs.registry import JobType
from tests import job_rows
from tests.job_rows import TYPE
from workers import descendants, equipment, kernel, runner
from workers.alterations import Alterations
from workers.budget import RetryBudget
from workers.context import JobContext
from workers.equipment import Equipment
from workers.limits import CANCEL_SIGNAL, Limits
from workers.logbook import Logbook
from workers.slots import OwnSlot, SharedSlots

Handler = Callable[[JobContext[Any]], object]


class Params(BaseModel):
    n: int = 0

    @field_validator("n")
    @classmethod
    def divides(cls, n: int) -> int:
        if n == 13:
            raise KeyError("a validator with a fault of its own")
        return n


@pytest.fixture
def played_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WorkerNode]:
    """The node whose child this process plays."""
    node = job_rows.a_node()
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, CANCEL_SIGNAL)}
    played = _equipment(node, tmp_path)
    monkeypatch.setattr(equipment, "mine", lambda: played)
    # This process has children and threads of its own, which are none of the job's.
    monkeypatch.setattr(descendants, "end_processes", lambda root: 0)
    monkeypatch.setattr(descendants, "threads_besides", lambda known: [])
    monkeypatch.setattr(runner, "_leave_if", lambda me, left: None)
    yield node
    played.limits.disarm()  # an attempt that escaped left its watchdog armed, which would end this process
    for number, handler in before.items():
        signal.signal(number, handler)


def _equipment(node: WorkerNode, folder: Path) -> Equipment:
    slot = OwnSlot(SharedSlots.create(1))
    traces = os.open(folder / "trace", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    return Equipment(
        claimant=Claimant(node.pk, *kernel.myself()),
        slot=slot,
        limits=Limits(slot, traces, grace_seconds=5),
        budget=RetryBudget.create(),
        logbook=Logbook(folder / "log"),
        alterations=Alterations(),
    )


@pytest.fixture
def run(played_node: WorkerNode) -> Iterator[Callable[..., Job]]:
    """run(handler, **fields of the job) runs one attempt of it, as a wake-up does; the job as it then is."""

    def run(handler: Handler, announce: Callable[[Claim], None] = lambda claim: None, **fields: Any) -> Job:
        registry._types[TYPE] = JobType(TYPE, handler, Params, "light")
        job = job_rows.a_queued_job(**fields)
        runner.run_next("light", announce)
        return job_rows.read(job.pk)

    yield run
    registry._types.pop(TYPE, None)


def detail(job: Job) -> str:
    return str(Attempt.objects.get(job=job).error_detail)


def raising(error: BaseException) -> Handler:
    def handler(ctx: JobContext[Any]) -> None:
        raise error

    return handler
