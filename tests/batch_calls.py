"""Batches of probes, as a caller without a server in between sends them."""

from typing import Any

from jobs import lifecycle
from jobs.lifecycle import Outcome
from jobs.models import BatchItem, Job
from jobs.states import State
from tests import job_rows
from tests.in_process_api import BASE, PROBE, InProcessApi, _as_bytes

BATCHES = f"{BASE}/batches"


def a_probe(cost_class: str = "light", **fields: Any) -> dict[str, Any]:
    """One item."""
    return {"type": PROBE, "params": {"seconds": 0, "cost_class": cost_class}, **fields}


def probes(*names: str, cost_class: str = "light") -> dict[str, Any]:
    return {name: a_probe(cost_class) for name in names}


def send(api: InProcessApi, body: Any, headers: dict[str, str] | None = None, **environ: Any) -> Any:
    """POST this value to /batches."""
    return api.send("POST", BATCHES, _as_bytes(body), headers=headers, **environ)


def post(api: InProcessApi, jobs: dict[str, Any], headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return send(api, {"jobs": jobs, **fields}, headers)


def submitted(api: InProcessApi, jobs: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An accepted batch."""
    response = post(api, jobs, **fields)
    assert response.status_code == 202, response.content
    return dict(response.json())


def batch(api: InProcessApi, batch_id: str) -> dict[str, Any]:
    response = api.get(f"/batches/{batch_id}")
    assert response.status_code == 200, response.content
    return dict(response.json())


def delete(api: InProcessApi, batch_id: str) -> Any:
    return api.send("DELETE", f"{BATCHES}/{batch_id}")


def job_of(batch_id: str, name: str) -> Job:
    job = BatchItem.objects.select_related("job").get(batch__id=batch_id, name=name).job
    assert job is not None
    return job


def run(batch_id: str, name: str, result: object = None, fails: bool = False) -> None:
    """Start and settle one item's job, past the order of its class."""
    attempt = start(batch_id, name)
    outcome = Outcome(State.FAILED, error_code="no_route", error_message="There is no way.") if fails else None
    lifecycle.settle(attempt.pk, 1, outcome or Outcome(State.SUCCEEDED, result=result, run_seconds=0.1))


def start(batch_id: str, name: str) -> Job:
    """As a claim that found it first."""
    job = job_of(batch_id, name)
    moment = job_rows.later(60)
    Job.objects.filter(pk=job.pk).update(
        state=State.RUNNING, attempt=1, started_at=job_rows.later(0), lease_until=moment, hard_deadline=moment
    )
    return job
