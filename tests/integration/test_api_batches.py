"""POST, GET and DELETE /batches: many jobs, one deadline, and whatever was done by then (P6, P9)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import classes, lifecycle, telemetry, wakeups
from jobs.lifecycle import Outcome
from jobs.models import Batch, BatchItem, Job
from jobs.states import State
from tests.batch_calls import a_probe, batch, delete, job_of, post, probes, run, send, start, submitted
from tests.in_process_api import InProcessApi, a_probe_node, problem
from tests.second_connections import Elsewhere, class_locked

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def test_all_jobs_are_admitted_and_each_names_its_batch(api: InProcessApi) -> None:
    response = post(api, probes("a1", "a2") | {"b": a_probe("heavy")})
    assert response.status_code == 202
    told = response.json()
    assert response.headers["Location"] == told["links"]["self"] == f"/api/v1/batches/{told['id']}"
    assert response.headers["Retry-After"] == "1"
    assert (told["state"], told["partial"], told["results"], told["deadline_at"]) == ("running", True, {}, None)
    assert (told["counts"]["total"], told["counts"]["pending"]) == (3, 3)
    assert list(told["jobs"]) == ["a1", "a2", "b"]
    for name, cost_class in (("a1", "light"), ("a2", "light"), ("b", "heavy")):
        job = api.job(told["jobs"][name])
        assert (job["state"], job["cost_class"]) == ("queued", cost_class)
        assert job["links"]["batch"] == told["links"]["self"]
    assert api.job(api.submit())["links"]["batch"] is None


def test_jobs_are_admitted_in_the_order_of_the_items(api: InProcessApi) -> None:
    told = submitted(api, probes("z", "m", "a", "k"))
    by_sequence = [str(pk) for pk in Job.objects.order_by("sequence").values_list("pk", flat=True)]
    assert by_sequence == [told["jobs"][name] for name in ("z", "m", "a", "k")]


def test_results_are_told_as_they_come_and_the_last_end_finishes_the_batch(api: InProcessApi) -> None:
    told = submitted(api, probes("a1", "a2"))
    run(told["id"], "a1", {"n": 1})
    half = batch(api, told["id"])
    a1, a2 = told["jobs"]["a1"], told["jobs"]["a2"]
    assert (half["state"], half["partial"]) == ("running", True)
    assert half["results"] == {"a1": {"ok": True, "data": {"n": 1}, "job": a1}}
    run(told["id"], "a2", fails=True)
    whole = batch(api, told["id"])
    assert (whole["state"], whole["partial"]) == ("finished", True)
    error = {"code": "no_route", "message": "There is no way.", "retryable": False, "stopped_by": None, "details": None}
    assert whole["results"]["a2"] == {"ok": False, "error": error, "job": a2}
    assert whole["counts"] == {
        "total": 2,
        "ok": 1,
        "failed": 1,
        "cancelled": 0,
        "deadline_exceeded": 0,
        "refused": 0,
        "pending": 0,
    }
    assert whole["sealed_at"] is not None


def test_a_batch_whose_jobs_all_succeeded_is_whole(api: InProcessApi) -> None:
    told = submitted(api, probes("a"), deadline_seconds=60)
    run(told["id"], "a", 7)
    whole = batch(api, told["id"])
    assert (whole["state"], whole["partial"], whole["results"]["a"]["data"]) == ("finished", False, 7)


# ── The deadline ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_the_deadline_what_has_not_ended_is_cut_off_and_cancelled(api: InProcessApi) -> None:
    """The deadline is the batch's: its jobs have none of their own, so that each ends as cancelled (P9)."""
    told = submitted(api, probes("done", "runs", "waits"), deadline_seconds=60)
    assert Job.objects.filter(deadline_at=None).count() == 3
    run(told["id"], "done", 1)
    Job.objects.filter(pk=told["jobs"]["done"]).update(accepted_at=Now())
    start(told["id"], "runs")
    _now_is_the_deadline_of(told["id"])
    sealed = batch(api, told["id"])
    assert (sealed["state"], sealed["partial"]) == ("finished", True)
    assert sealed["results"]["done"]["ok"] is True
    for name in ("runs", "waits"):
        assert sealed["results"][name]["error"]["code"] == "deadline_exceeded"
        assert sealed["results"][name]["job"] == told["jobs"][name]
    runs, waits = api.job(told["jobs"]["runs"]), api.job(told["jobs"]["waits"])
    assert (runs["state"], waits["state"], waits["error"]) == ("running", "cancelled", None)
    assert runs["cancel_requested_at"] is not None
    assert waits["cancel_requested_at"] is not None
    assert sealed["sealed_at"] == sealed["deadline_at"], "it was sealed then, whoever looked later"


def _now_is_the_deadline_of(batch_id: str) -> None:
    """The deadline is over by now, and was not when the first job ended."""
    now = Now()
    Batch.objects.filter(pk=batch_id).update(deadline_at=now)
    Job.objects.filter(batch__id=batch_id, state="queued").update(
        start_by=Batch.objects.filter(pk=batch_id).values("deadline_at")[:1]
    )


def test_what_succeeds_after_the_deadline_is_too_late_though_nobody_had_looked(api: InProcessApi) -> None:
    told = submitted(api, probes("late", "on time"), deadline_seconds=60)
    run(told["id"], "on time", 1)
    start(told["id"], "late")
    _now_is_the_deadline_of(told["id"])
    lifecycle.settle(job_of(told["id"], "late").pk, 1, Outcome(State.SUCCEEDED, result=2, run_seconds=0.1))
    sealed = batch(api, told["id"])
    assert api.job(told["jobs"]["late"])["state"] == "succeeded"
    assert sealed["results"]["late"]["error"]["code"] == "deadline_exceeded"
    assert sealed["results"]["on time"]["data"] == 1


def test_a_deadline_that_has_passed_already_is_refused(api: InProcessApi) -> None:
    problem(post(api, probes("a"), deadline_seconds=0), 422, "deadline_infeasible")
    problem(post(api, probes("a"), {"X-Deadline-Ms": "0"}), 422, "deadline_infeasible")
    problem(post(api, probes("a"), deadline_at="2020-01-01T00:00:00Z", atomic=False), 422, "deadline_infeasible")
    assert not Job.objects.exists()
    assert not Batch.objects.exists()


def test_a_deadline_that_has_passed_is_told_before_a_class_that_is_full(api: InProcessApi) -> None:
    """P7: to come back when there is room would be of no use."""
    submitted(api, probes(*"abcdefgh", cost_class="heavy"))
    problem(post(api, probes("a", cost_class="heavy")), 503, "queue_full", retryable=True)
    problem(post(api, probes("a", cost_class="heavy"), deadline_seconds=0), 422, "deadline_infeasible")
    late = {"fits": a_probe(), "late": a_probe("heavy", deadline_seconds=0)}
    told = problem(post(api, late), 422, "deadline_infeasible")
    assert told["errors"][0]["loc"] == ["jobs", "late"]


def test_of_several_deadlines_the_earliest_counts(api: InProcessApi) -> None:
    told = submitted(api, probes("a"), headers={"X-Deadline-Ms": "5000"}, deadline_seconds=60)
    row = Batch.objects.get(pk=told["id"])
    assert row.deadline_at is not None
    assert timedelta(seconds=4) < row.deadline_at - row.accepted_at <= timedelta(seconds=5)
    assert job_of(told["id"], "a").start_by == row.deadline_at, "later it starts no more, and holds no place (P2)"


# ── All or none, or each by itself ───────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_does_not_fit_is_refused_whole_and_leaves_nothing(api: InProcessApi) -> None:
    for _ in range(6):
        api.submit(params={"seconds": 0, "cost_class": "heavy"})
    refused = post(api, probes("a", "b", "c", cost_class="heavy") | {"l": a_probe()})
    told = problem(refused, 503, "queue_full", retryable=True)
    assert (told["cost_class"], told["room"], told["waiting"]) == ("heavy", 2, 6)
    assert Job.objects.count() == 6
    assert not Batch.objects.exists()
    assert post(api, probes("a", "b", cost_class="heavy") | {"l": a_probe()}).status_code == 202


def test_a_batch_that_its_class_could_never_hold_is_told_so(api: InProcessApi) -> None:
    most = classes.get("heavy").processes + classes.get("heavy").max_waiting
    names = [f"j{number}" for number in range(most + 1)]
    told = problem(post(api, probes(*names, cost_class="heavy")), 422, "batch_too_large")
    assert told == {}
    refused = post(api, probes(*names[:most], cost_class="heavy"))
    problem(refused, 503, "queue_full", retryable=True)
    a_probe_node("heavy", processes=classes.get("heavy").processes)
    assert post(api, probes(*names[:most], cost_class="heavy")).status_code == 202


def test_each_by_itself_those_that_fit_are_admitted_and_the_others_keep_their_verdict(api: InProcessApi) -> None:
    for _ in range(6):
        api.submit(params={"seconds": 0, "cost_class": "heavy"})
    response = post(api, probes("a", "b", "c", cost_class="heavy") | {"l": a_probe()}, atomic=False)
    assert response.status_code == 202
    told = response.json()
    assert told["room"] == {"heavy": 0, "light": 99}
    assert [name for name, job in told["jobs"].items() if job] == ["a", "b", "l"]
    assert told["results"]["c"]["error"]["code"] == "queue_full"
    assert (told["results"]["c"]["ok"], told["results"]["c"]["job"]) == (False, None)
    assert told["counts"]["refused"] == 1
    for name in ("a", "b", "l"):
        run(told["id"], name)
    sealed = batch(api, told["id"])
    assert (sealed["state"], sealed["partial"]) == ("finished", True)
    assert sealed["results"]["c"] == told["results"]["c"]
    assert "room" not in sealed


def test_when_none_is_admitted_nothing_is_stored(api: InProcessApi) -> None:
    for _ in range(8):
        api.submit(params={"seconds": 0, "cost_class": "heavy"})
    refused = post(api, probes("a", "b", cost_class="heavy"), {"Idempotency-Key": "k"}, atomic=False)
    told = problem(refused, 503, "queue_full", retryable=True)
    assert told["room"] == {"heavy": 0}
    assert {name: result["error"]["code"] for name, result in told["results"].items()} == {
        "a": "queue_full",
        "b": "queue_full",
    }
    assert (Batch.objects.count(), BatchItem.objects.count(), Job.objects.count()) == (0, 0, 8)


def test_a_type_that_no_live_worker_knows_is_refused_alone_or_with_all(api: InProcessApi) -> None:
    a_probe_node(types=("probe.sleep",))
    items = probes("a") | {"s": {"type": "probe.spin", "params": {"seconds": 0, "cost_class": "light"}}}
    told = problem(post(api, items), 503, "type_unavailable", retryable=True)
    assert told["errors"][0]["loc"] == ["jobs", "s"]
    assert submitted(api, items, atomic=False)["results"]["s"]["error"]["code"] == "type_unavailable"


def test_an_item_may_have_a_deadline_of_its_own(api: InProcessApi) -> None:
    told = submitted(api, {"a": a_probe(deadline_seconds=30)}, deadline_seconds=60)
    job = job_of(told["id"], "a")
    assert job.deadline_at is not None
    assert job.deadline_at - job.accepted_at <= timedelta(seconds=30)
    passed = {"a": a_probe(deadline_seconds=0), "b": a_probe()}
    refused = problem(post(api, passed), 422, "deadline_infeasible")
    assert refused["errors"][0]["loc"] == ["jobs", "a"]
    assert submitted(api, passed, atomic=False)["results"]["a"]["error"]["code"] == "deadline_infeasible"
    assert Job.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_gets_no_turn_in_a_class_within_a_second_is_told_so(api: InProcessApi, other: Elsewhere) -> None:
    with class_locked("heavy", by=other):
        told = problem(post(api, probes("a") | {"h": a_probe("heavy")}), 503, "unavailable", retryable=True)
        assert told["cost_class"] == "heavy"
        assert post(api, probes("a")).status_code == 202, "the other class is nobody's"
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by_item", [True, False])
def test_a_key_that_is_still_being_admitted_is_told_as_such(api: InProcessApi, other: Elsewhere, by_item: bool) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('key:' || %s || ':k', 0))", [api.client.pk])
        items, headers = ({"a": a_probe(key="k")}, None) if by_item else (probes("a"), {"Idempotency-Key": "k"})
        answer = other.run(lambda: post(api, items, headers))
    problem(answer, 409, "idempotency_in_flight", retryable=True)
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_each_admitted_job_sends_a_wake_up_to_its_class(api: InProcessApi) -> None:
    """None to a class without a live worker (P14)."""
    a_probe_node()
    submitted(api, probes("a", "b", "c") | {"h": a_probe("heavy")})
    assert (wakeups.queue_length("light"), wakeups.queue_length("heavy")) == (3, 0)


def test_what_was_admitted_and_refused_is_counted_by_item(api: InProcessApi) -> None:
    def counted() -> tuple[float, float]:
        refused = telemetry.REJECTED.labels("heavy", "queue_full")
        return telemetry.ADMITTED.labels("heavy")._value.get(), refused._value.get()

    before = counted()
    submitted(api, probes(*"abcdefghij", cost_class="heavy"), atomic=False)
    post(api, probes("a", "b", cost_class="heavy"))
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [8, 2 + 2]


# ── What cannot be a batch ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize(
    ("jobs", "code", "loc"),
    [
        ({"x": a_probe(prioritie=1)}, "invalid_request", ["jobs", "x", "prioritie"]),
        (
            {"x": {"type": "probe.sleep", "params": {"seconds": -1}}},
            "invalid_params",
            ["jobs", "x", "params", "seconds"],
        ),
        ({"x": {"type": "nothing"}}, "unknown_type", ["jobs", "x", "type"]),
        ({"x": a_probe(timeout_seconds=1e6)}, "limit_out_of_range", ["jobs", "x", "timeout_seconds"]),
        ({"x": a_probe(key="a b")}, "invalid_request", ["jobs", "x", "key"]),
        ({"x": a_probe(key=1)}, "invalid_request", ["jobs", "x", "key"]),
        ({"x": a_probe(key="k"), "y": a_probe(key="k")}, "invalid_request", ["jobs", "y", "key"]),
        ({"x": 1}, "invalid_request", ["jobs", "x"]),
        ({}, "invalid_request", ["jobs"]),
        ({"": a_probe()}, "invalid_request", ["jobs", "", "[key]"]),
    ],
)
def test_what_is_wrong_with_an_item_is_told_and_nothing_is_admitted(
    api: InProcessApi, atomic: bool, jobs: dict[str, Any], code: str, loc: list[str]
) -> None:
    told = problem(post(api, probes("fine") | jobs if jobs else jobs, atomic=atomic), 422, code)
    assert loc in [error["loc"] for error in told["errors"]]
    assert not Job.objects.exists()


def test_all_that_is_wrong_is_told_at_once(api: InProcessApi) -> None:
    told = problem(post(api, {"x": {"type": "nothing"}, "y": a_probe(no=1)}), 422, "unknown_type")
    assert [error["loc"] for error in told["errors"]] == [["jobs", "x", "type"], ["jobs", "y", "no"]]


@pytest.mark.parametrize(
    "body", [{}, [], {"jobs": []}, {"jobs": probes("a"), "atomic": 1}, {"jobs": probes("a"), "x": 1}]
)
def test_what_is_no_batch_is_told_so(api: InProcessApi, body: Any) -> None:
    problem(send(api, body), 422, "invalid_request")


def test_a_hundred_items_are_taken_and_no_more(api: InProcessApi) -> None:
    names = [f"j{number}" for number in range(101)]
    told = problem(post(api, probes(*names)), 422, "invalid_request")
    assert told["errors"][0]["loc"] == ["jobs"]
    assert submitted(api, probes(*names[:100]))["counts"]["total"] == 100


def test_four_mebibytes_are_taken_and_no_more(api: InProcessApi) -> None:
    big = {f"j{number}": a_probe(labels={"l": "x" * 200}) for number in range(50)}
    body = '{"jobs": {"a": {"type": "probe.sleep", "params": {"seconds": 0}}}}'
    spaces = " " * (4 * 1024 * 1024 - len(body))
    assert api.send("POST", "/api/v1/batches", (body + spaces).encode()).status_code == 202
    told = problem(api.send("POST", "/api/v1/batches", (body + spaces + " ").encode()), 413, "too_large")
    assert told["limit_bytes"] == 4 * 1024 * 1024
    assert submitted(api, big)["counts"]["total"] == 50
    too_large = {"type": "probe.sleep", "params": {"seconds": 0, "x": "y" * 70_000}}
    problem(api.json(too_large), 422, "invalid_params")


# ── Whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_another_clients_batch_is_not_told_apart_from_none(api: InProcessApi) -> None:
    told = submitted(InProcessApi(), probes("a"))
    for answer in (api.get(f"/batches/{told['id']}"), delete(api, told["id"]), api.get("/batches/no-id")):
        problem(answer, 404, "not_found")
    assert api.get("/batches/018f0000-0000-7000-8000-000000000000").json() == api.get(f"/batches/{told['id']}").json()
    assert Job.objects.get().state == "queued"


def test_a_key_that_may_not_read_is_told_no_data(api: InProcessApi) -> None:
    submitter = InProcessApi("jobs:submit", "jobs:cancel")
    told = submitted(submitter, probes("a", "b"))
    run(told["id"], "a", {"secret": 1})
    assert delete(submitter, told["id"]).json()["results"]["a"] == {"ok": True, "data": None, "job": told["jobs"]["a"]}
    problem(submitter.get(f"/batches/{told['id']}"), 403, "forbidden")


# ── Cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_delete_cancels_what_it_can_and_keeps_the_results_it_has(api: InProcessApi) -> None:
    told = submitted(api, probes("done", "runs", "waits"))
    run(told["id"], "done", 1)
    start(told["id"], "runs")
    first = delete(api, told["id"])
    assert (first.status_code, first.json()["state"], first.json()["partial"]) == (200, "cancelled", True)
    assert first.json()["results"]["done"]["data"] == 1
    assert {first.json()["results"][name]["error"]["code"] for name in ("runs", "waits")} == {"cancelled"}
    assert api.job(told["jobs"]["waits"])["state"] == "cancelled"
    assert api.job(told["jobs"]["runs"])["cancel_requested_at"] is not None
    assert delete(api, told["id"]).json() == batch(api, told["id"]) == first.json()


def test_a_delete_of_a_finished_batch_changes_nothing(api: InProcessApi) -> None:
    told = submitted(api, probes("a"))
    run(told["id"], "a", 1)
    answer = delete(api, told["id"])
    assert (answer.status_code, answer.json()["state"], answer.json()["cancel_requested_at"]) == (200, "finished", None)


def test_a_delete_after_the_deadline_finds_the_batch_finished(api: InProcessApi) -> None:
    told = submitted(api, probes("a"), deadline_seconds=60)
    _now_is_the_deadline_of(told["id"])
    answer = delete(api, told["id"]).json()
    assert (answer["state"], answer["results"]["a"]["error"]["code"]) == ("finished", "deadline_exceeded")
