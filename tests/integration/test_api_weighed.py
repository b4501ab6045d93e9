"""Jobs are weighed at the door: their cost, their place among their client's own, and what is refused for it (P5, P9, P11a)."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from structlog.testing import capture_logs

from jobs import capacity, costs, registry
from jobs.models import Job, OutboxEntry, RunTimes
from jobs.registry import JobType, NoParams
from jobs.submit import Admitted, InvalidJob, Rejected, outbox, submit
from tests import batch_calls, job_rows
from tests.in_process_api import PROBE, InProcessApi, Web, a_probe_node, claim_probe, problem
from tests.outbox_calls import HEAVY, come_due, entry_of, later, make_room, told

pytestmark = pytest.mark.django_db

COSTLY = "tests.costly"


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", dict(registry._types))


def a_type(cost: Any, processes: int = 1) -> str:
    """Of the light class, whose jobs may run for 10 s and whose work may take 8 s; and a node that runs it."""
    registry.register(JobType(COSTLY, print, NoParams, "light", cost=cost))
    a_probe_node(processes=processes, types=(COSTLY,))
    return COSTLY


def accepted(api: InProcessApi, job_type: str, **fields: Any) -> None:
    assert api.json({"type": job_type, **fields}).status_code == 202


# ── Priority and flow ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_has_a_priority_and_a_flow_and_shows_them(api: InProcessApi) -> None:
    job_id = api.submit(priority=-7, flow="tenant 7")
    shown = api.job(job_id)
    assert (shown["priority"], shown["flow"]) == (-7, "tenant 7")
    listed = api.get("/jobs").json()["jobs"][0]
    assert (listed["priority"], listed["flow"]) == (-7, "tenant 7")


def test_without_them_they_are_none(api: InProcessApi) -> None:
    shown = api.job(api.submit())
    assert (shown["priority"], shown["flow"]) == (0, "")


@pytest.mark.parametrize("said", [{"priority": -100}, {"priority": 100}, {"flow": "ü" * 64}])
def test_the_ends_of_their_ranges_are_taken(api: InProcessApi, said: dict[str, Any]) -> None:
    assert api.job(api.submit(**said)).items() >= said.items()


@pytest.mark.parametrize(
    "said",
    [{"priority": -101}, {"priority": 101}, {"priority": 1.5}, {"priority": True}, {"flow": "x" * 65}, {"flow": 7}],
)
def test_what_is_beyond_is_no_job(api: InProcessApi, said: dict[str, Any]) -> None:
    (name,) = said
    members = problem(api.post(PROBE, {"seconds": 0}, **said), 422, "invalid_request")
    assert [error["loc"] for error in members["errors"]] == [[name]]
    with pytest.raises(InvalidJob, match=name):
        submit(PROBE, {"seconds": 0}, **said)
    assert not Job.objects.exists()


def test_an_item_of_a_batch_has_its_own(api: InProcessApi) -> None:
    batch_calls.submitted(api, {"a": batch_calls.a_probe(priority=5, flow="f"), "b": batch_calls.a_probe()})
    assert sorted(Job.objects.values_list("priority", "flow")) == [(0, ""), (5, "f")]


def test_a_call_has_them_now_and_after_the_commit() -> None:
    assert isinstance(submit(PROBE, {"seconds": 0}, priority=3, flow="now"), Admitted)
    entry = entry_of(later(priority=4, flow="later"))
    assert (entry.priority, entry.flow) == (4, "later")
    assert sorted(Job.objects.values_list("priority", "flow")) == [(3, "now"), (4, "later")]


def test_of_one_request_key_another_priority_is_another_request(api: InProcessApi) -> None:
    body = {"type": PROBE, "params": {"seconds": 0}}
    assert api.json(body | {"priority": 1}, headers={"Idempotency-Key": "k"}).status_code == 202
    problem(api.json(body | {"priority": 2}, headers={"Idempotency-Key": "k"}), 422, "idempotency_mismatch")


def test_the_highest_priority_of_a_client_runs_first(api: InProcessApi) -> None:
    api.submit()
    urgent = api.submit(priority=100)
    assert str(claim_probe(a_probe_node()).job_id) == urgent


# ── Cost ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_type_says_of_its_work_is_kept_with_the_job(api: InProcessApi) -> None:
    accepted(api, a_type(lambda params: 2.5))
    assert Job.objects.values_list("expected_seconds", "cost_seconds").get() == (2.5, 2.5)


def test_work_that_does_not_fit_the_time_out_is_refused(api: InProcessApi) -> None:
    members = problem(api.json({"type": a_type(4), "timeout_seconds": 3}), 422, "cost_too_large")
    assert (members["cost_seconds"], members["timeout_seconds"]) == (4, 3)
    assert [error["loc"] for error in members["errors"]] == [["params"]]
    with pytest.raises(InvalidJob, match="Its work is 4 s") as refused:
        submit(COSTLY, timeout_seconds=3)
    assert refused.value.code == "cost_too_large"
    with pytest.raises(InvalidJob, match="Its work is 4 s"):
        submit(COSTLY, timeout_seconds=3, on_commit=True)
    assert not (Job.objects.exists() or OutboxEntry.objects.exists())


def test_of_a_batch_the_item_is_named(api: InProcessApi) -> None:
    items = {"ok": {"type": a_type(4)}, "long": {"type": COSTLY, "timeout_seconds": 3}}
    members = problem(batch_calls.post(api, items, atomic=False), 422, "cost_too_large")
    assert [error["loc"] for error in members["errors"]] == [["jobs", "long", "params"]]
    assert members["cost_seconds"] == 4


@pytest.mark.parametrize("said", ["4242-4242", -1, float("nan"), True])
def test_a_cost_that_is_none_is_the_authors_fault(api: InProcessApi, said: Any) -> None:
    a_type(lambda params: said)
    with capture_logs() as lines:
        problem(api.json({"type": COSTLY}), 500, "internal_error")
    assert [(line["type"], line["log_level"]) for line in lines if line["event"] == "wrong_cost"] == [(COSTLY, "error")]
    assert "4242" not in str(lines)
    assert not Job.objects.exists()


def test_an_entry_whose_type_is_changed_for_the_worse_waits_for_a_better_one() -> None:
    while isinstance(submit(PROBE, HEAVY), Admitted):
        pass
    waits = later(HEAVY)
    make_room()
    probe = registry._types[PROBE]
    registry._types[PROBE] = replace(probe, cost=lambda params: -1)
    come_due()
    outbox.run_once()
    assert told(waits) == ("waiting", "wrong_cost")
    registry._types[PROBE] = probe
    come_due()
    outbox.run_once()
    assert told(waits) == ("admitted", "")


# ── Refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_class_with_enough_work_is_full_and_says_when_it_will_not_be(api: InProcessApi) -> None:
    """Of work for 12 s on two slots 5.6 s must be done before it is below four fifths of 8 s."""
    a_type(8, processes=2)
    for _ in range(3):
        accepted(api, COSTLY)
    response = api.json({"type": COSTLY})
    members = problem(response, 503, "queue_full", retryable=True)
    assert "enough work" in response.json()["detail"]
    assert (members["backlog_seconds"], members["max_backlog_seconds"]) == (12, 8)
    assert (members["waiting"], members["room"]) == (3, 0)
    assert members["retry_after_seconds"] == 6
    refused = submit(COSTLY)
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.retry_after_seconds) == ("queue_full", 9)  # the next turn, half of 5 s later (P10)
    assert api.get("/classes/light").json()["accepting"] is False


def test_a_deadline_that_would_probably_be_missed_is_refused_with_the_estimate(api: InProcessApi) -> None:
    a_type(4)
    for _ in range(2):
        accepted(api, COSTLY)
    response = api.json({"type": COSTLY, "deadline_seconds": 8})
    members = problem(response, 503, "deadline_unreachable", retryable=True)
    assert members["estimated_start_seconds"] == 8
    assert "in about 8.0 s" in response.json()["detail"]
    refused = submit(COSTLY, deadline_seconds=8, client=api.client.name)  # another would have the turn before
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.starts_in_seconds) == ("deadline_unreachable", 8)
    assert Job.objects.count() == 2
    assert api.json({"type": COSTLY, "deadline_seconds": 60}).status_code == 202


def test_a_deadline_nearer_than_the_work_is_never_met(api: InProcessApi) -> None:
    response = api.json({"type": a_type(4), "deadline_seconds": 3})
    problem(response, 422, "deadline_infeasible")
    assert "4 s of work" in response.json()["detail"]


def test_of_an_atomic_batch_the_item_that_would_be_late_decides(api: InProcessApi) -> None:
    accepted(api, a_type(4))
    items = {"calm": {"type": COSTLY}, "late": {"type": COSTLY, "deadline_seconds": 8}}
    members = problem(batch_calls.post(api, items), 503, "deadline_unreachable", retryable=True)
    assert [error["loc"] for error in members["errors"]] == [["jobs", "late"]]
    assert members["estimated_start_seconds"] == 8
    assert Job.objects.count() == 1


def test_of_another_batch_only_that_item_is_refused(api: InProcessApi) -> None:
    accepted(api, a_type(4))
    items = {"calm": {"type": COSTLY}, "late": {"type": COSTLY, "deadline_seconds": 8}}
    batch = batch_calls.submitted(api, items, atomic=False)
    assert (batch["jobs"]["late"], batch["results"]["late"]["error"]["code"]) == (None, "deadline_unreachable")
    assert batch["results"]["late"]["error"]["retryable"] is True
    problem(batch_calls.post(api, {"late": items["late"]}, atomic=False), 503, "deadline_unreachable", retryable=True)


# ── What a class tells of its work ───────────────────────────────────────────────────────────────────────────────────


def measured(seconds: float) -> None:
    RunTimes.objects.create(
        cost_class="light", type=COSTLY, newest=[seconds] * 20, expected_seconds=seconds, seen_until=job_rows.later(0)
    )
    costs.mean_seconds.forget()  # type: ignore[attr-defined]


def test_a_class_tells_its_work_and_how_long_one_more_would_wait(api: InProcessApi) -> None:
    """Of two slots both are taken, and one waits: the next needs two departures, of two seconds on two slots."""
    a_type(2, processes=2)
    measured(2.0)
    for _ in range(3):
        accepted(api, COSTLY)
    told = api.get("/classes/light").json()
    assert (told["backlog_seconds"], told["max_backlog_seconds"]) == (3, 8)
    p50, p95 = (capacity.start_seconds(2, 2, 2.0, sure) for sure in (0.5, 0.95))
    assert told["estimated_wait_seconds"] == {"p50": pytest.approx(p50, abs=1e-5), "p95": pytest.approx(p95, abs=1e-5)}
    gauge = Web().get("/metrics").content.decode()
    assert 'jobs_backlog_seconds{cost_class="light"} 3.0' in gauge


def test_a_class_with_a_free_process_makes_nobody_wait(api: InProcessApi) -> None:
    a_type(2)
    assert api.get("/classes/light").json()["estimated_wait_seconds"] == {"p50": 0, "p95": 0}


def test_a_class_tells_how_fast_it_drains_and_what_a_refused_caller_would_be_told(api: InProcessApi) -> None:
    a_type(8, processes=2)
    for _ in range(6):
        job_rows.a_finished_job(accepted_at=job_rows.later(-30))
    for _ in range(3):
        accepted(api, COSTLY)
    told = api.get("/classes/light").json()
    assert told["throughput_per_second"] == pytest.approx(0.2, abs=0.02)
    refused = problem(api.json({"type": COSTLY}), 503, "queue_full", retryable=True)
    assert told["retry_after_seconds"] == refused["retry_after_seconds"] == 6


def test_the_admin_shows_a_jobs_cost_and_its_estimate(api: InProcessApi, admin_client: Client) -> None:
    a_type(2, processes=1)
    measured(2.0)
    accepted(api, COSTLY)
    job = Job.objects.get()
    Job.objects.update(started_at=job_rows.later(4), estimated_start_at=job_rows.later(1))
    page = admin_client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    for label in ("Expected seconds", "Rank", "Estimated start at", "start, s after its estimate"):
        assert label.lower() in page.lower()
    assert ">3.0<" in page
