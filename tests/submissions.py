"""Submissions to the door, as tests need them."""

from dataclasses import replace
from typing import Any

from jobs import admission, classes
from jobs.admission import Admitted, Rejected, Replayed
from jobs.batches import BatchAdmitted, BatchRejected, BatchReplayed, BatchSubmission
from jobs.classes import CostClass
from jobs.door.submission import Submission
from tests.job_rows import TYPE, a_client


def a_class(name: str = "light", **numbers: Any) -> CostClass:
    """The declared class with some numbers of our own."""
    return replace(classes.get(name), **numbers)


def a_submission(max_waiting: int = 100, cost_class: str = "light", **fields: Any) -> Submission:
    given = {
        "client": a_client(),
        "type": TYPE,
        "cost_class": a_class(cost_class, max_waiting=max_waiting),
        "params": {},
        "timeout_seconds": 10.0,
        "max_wait_seconds": 60.0,
        "labels": {},
        **fields,
    }
    return Submission(**given)


def submit(max_waiting: int = 100, cost_class: str = "light", **fields: Any) -> Admitted | Replayed | Rejected:
    return admission.submit(a_submission(max_waiting, cost_class, **fields))


def verdict(answer: Admitted | Replayed | Rejected) -> str:
    """`admitted`, `replayed`, or why not."""
    return answer.reason if isinstance(answer, Rejected) else type(answer).__name__.lower()


def a_batch(items: dict[str, Submission], **fields: Any) -> BatchSubmission:
    return BatchSubmission(**{"client": a_client(), "items": items, **fields})


def batch_verdict(answer: BatchAdmitted | BatchReplayed | BatchRejected) -> str:
    """`admitted`, `replayed`, or why not."""
    if isinstance(answer, BatchRejected):
        return answer.rejected.reason
    return type(answer).__name__.removeprefix("Batch").lower()
