"""A batch is sealed once, by whoever comes first, never changes after, and is kept as long as its jobs (P9, P33, P37)."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import batches, lifecycle, notify, sweeps, telemetry
from jobs.control import effective
from jobs.lifecycle import Outcome
from jobs.models import Batch, BatchItem, IdempotencyKey, Job
from jobs.row_locks import RowHeld
from jobs.states import State
from tests import job_rows
from tests.batch_calls import a_probe, batch, delete, job_of, post, probes, run, start, submitted
from tests.in_process_api import InProcessApi
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db
on_real_transactions = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _now_is_the_deadline_of(batch_id: str) -> None:
    Batch.objects.filter(pk=batch_id).update(deadline_at=job_rows.later(0))
    at_it = Batch.objects.filter(pk=batch_id).values("deadline_at")[:1]
    Job.objects.filter(batch__id=batch_id, state="queued").update(start_by=at_it)


def _state(batch_id: str) -> str:
    return Batch.objects.get(pk=batch_id).state


# ── Who seals ────────────────────────────────────────────────────────────────────────────────────────────────────────


@on_real_transactions
def test_whoever_ends_the_last_job_seals_the_batch(api: InProcessApi) -> None:
    told, before = submitted(api, probes("a", "b")), telemetry.BATCHES_SEALED.labels("finished")._value.get()
    run(told["id"], "a")
    assert _state(told["id"]) == "running"
    run(told["id"], "b")
    assert _state(told["id"]) == "finished"
    assert telemetry.BATCHES_SEALED.labels("finished")._value.get() == before + 1


@on_real_transactions
@pytest.mark.parametrize("how", ["cancel", "expire", "lose"])
def test_however_the_last_job_ends(api: InProcessApi, how: str) -> None:
    told = submitted(api, probes("a"))
    job = job_of(told["id"], "a")
    if how == "cancel":
        lifecycle.cancel(job.pk)
    elif how == "expire":
        Job.objects.update(start_by=job_rows.later(-1))
        lifecycle.expire()
    else:
        start(told["id"], "a")
        Job.objects.update(max_deliveries=1)
        lifecycle.lose(job.pk, 1)
    assert _state(told["id"]) == "finished"
    code = {"cancel": "cancelled", "expire": "max_wait", "lose": "worker_lost"}[how]
    assert batch(api, told["id"])["results"]["a"]["error"]["code"] == code


def test_the_sweep_seals_what_is_due_and_nothing_else(api: InProcessApi) -> None:
    """Here no process looks after an end: the commit never comes."""
    over, done, open_ = (submitted(api, probes("a"), deadline_seconds=60)["id"] for _ in range(3))
    run(done, "a")
    _now_is_the_deadline_of(over)
    assert sweeps.seal() == 2
    assert [_state(batch_id) for batch_id in (over, done, open_)] == ["finished", "finished", "running"]
    assert job_of(over, "a").state == "cancelled"
    assert sweeps.seal() == 0


def test_a_queued_job_that_its_batch_cut_off_is_cancelled_by_whoever_meets_it(api: InProcessApi) -> None:
    """Not expired: at the deadline of a batch its jobs are cancelled (P9)."""
    told = submitted(api, probes("a"), deadline_seconds=60)
    _now_is_the_deadline_of(told["id"])
    assert sweeps.expire() == 1
    job = api.job(told["jobs"]["a"])
    assert (job["state"], job["error"], job["cancel_requested_at"] is not None) == ("cancelled", None, True)
    assert batch(api, told["id"])["results"]["a"]["error"]["code"] == "deadline_exceeded"


def test_a_job_that_is_queued_again_does_not_start_after_the_deadline_of_its_batch(api: InProcessApi) -> None:
    told = submitted(api, probes("a", "b"), deadline_seconds=60)
    for name in "ab":
        lifecycle.release(start(told["id"], name).pk, 1)
    row = Batch.objects.get(pk=told["id"])
    assert [job_of(told["id"], name).start_by for name in "ab"] == [row.deadline_at] * 2
    _now_is_the_deadline_of(told["id"])
    assert sweeps.expire() == 2
    assert [job_of(told["id"], name).state for name in "ab"] == ["cancelled"] * 2


def test_a_job_that_waited_too_long_expires_also_in_a_batch(api: InProcessApi) -> None:
    told = submitted(api, {"a": a_probe(max_wait_seconds=5)}, deadline_seconds=60)
    Job.objects.update(start_by=job_rows.later(-1))
    assert sweeps.expire() == 1
    assert batch(api, told["id"])["results"]["a"]["error"]["code"] == "max_wait"


@on_real_transactions
def test_a_reader_is_told_what_is_known_while_somebody_holds_a_job(api: InProcessApi, other: Elsewhere) -> None:
    told = submitted(api, probes("done", "held"), deadline_seconds=60)
    run(told["id"], "done", 1)
    held = start(told["id"], "held")
    _now_is_the_deadline_of(told["id"])
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.pk)
        seen = other.run(lambda: batches.as_it_is(api.client.pk, UUID(told["id"])))
        assert (seen.sealed, seen.counts["ok"]) == (False, 1)
        with pytest.raises(RowHeld):
            other.run(lambda: batches.cancel(UUID(told["id"])))
        assert other.run(sweeps.seal) == 0
    assert sweeps.seal() == 1


@on_real_transactions
def test_a_job_that_ends_as_ever_when_its_batch_cannot_be_sealed(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*whatever: object) -> None:
        raise RuntimeError("no seal today")

    told = submitted(api, probes("a"))
    with monkeypatch.context() as patched:
        patched.setattr("jobs.batches.sealing._seal", broken)
        run(told["id"], "a", 1)
    assert (job_of(told["id"], "a").state, _state(told["id"])) == ("succeeded", "running")
    assert sweeps.seal() == 1


@on_real_transactions
def test_who_waits_for_a_batch_is_told_of_its_seal(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(notify, "_publish", told.append)
    notify.tell_of_ends()
    try:
        awaited, other = (UUID(submitted(api, probes("a"))["id"]) for _ in range(2))
        assert notify.mark_batch(awaited, 10)
        batches.cancel(other)
        batches.cancel(awaited)
    finally:
        lifecycle.ended.disconnect(dispatch_uid="notify")
        batches.sealed.disconnect(dispatch_uid="notify")
    assert told == [awaited]
    assert not notify.mark_batch(awaited, 10)


@on_real_transactions
def test_every_half_second_who_waits_for_jobs_and_batches_is_asked_for_in_one_query(api: InProcessApi) -> None:
    job, sealed, open_ = UUID(api.submit()), *(UUID(submitted(api, probes("a"))["id"]) for _ in range(2))
    batches.cancel(sealed)
    with CaptureQueriesContext(connection) as made:
        assert notify._no_longer_live([job, sealed, open_]) == {sealed}
    assert len(made) == 1


# ── Never after ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs_batch SET sealed_at = now() - interval '1 day'",
        "UPDATE jobs_batch SET sealed_at = NULL",
        "UPDATE jobs_batch SET cancel_requested_at = now()",
        "UPDATE jobs_batch SET deadline_at = now()",
        "UPDATE jobs_batchitem SET unfinished = true",
        "UPDATE jobs_batchitem SET job_id = NULL, refusal = 'queue_full'",
    ],
)
def test_a_sealed_batch_is_held_against_raw_sql_too(api: InProcessApi, change: str) -> None:
    told = submitted(api, probes("a"))
    run(told["id"], "a", 1)
    before = batch(api, told["id"])
    with pytest.raises(IntegrityError, match="is sealed"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)
    assert batch(api, told["id"]) == before


def test_what_a_job_brings_after_the_seal_is_not_told(api: InProcessApi) -> None:
    told = submitted(api, probes("a"), deadline_seconds=60)
    job = start(told["id"], "a")
    _now_is_the_deadline_of(told["id"])
    before = batch(api, told["id"])
    assert lifecycle.settle(job.pk, 1, Outcome(State.SUCCEEDED, result=1, run_seconds=0.1)) is State.CANCELLED
    assert batch(api, told["id"]) == before == delete(api, told["id"]).json()


# ── How long ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_past_its_retention_an_items_data_is_gone_and_the_batch_says_so(api: InProcessApi, settings: Any) -> None:
    told = submitted(api, probes("a"))
    run(told["id"], "a", {"n": 1})
    assert batch(api, told["id"])["results"]["a"]["data"] == {"n": 1}
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = 0
    sweeps.prune()
    after = batch(api, told["id"])
    assert (after["state"], after["partial"]) == ("finished", False)
    assert after["results"]["a"] == {"ok": True, "data": None, "job": told["jobs"]["a"], "data_expired": True}


def test_a_batch_goes_after_its_retention_with_its_jobs_and_its_key(api: InProcessApi, settings: Any) -> None:
    told = post(api, probes("a", "b"), {"Idempotency-Key": "k"}).json()
    for name in "ab":
        run(told["id"], name)
    batch(api, told["id"])
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 100
    sweeps.prune()
    assert _left() == [1, 2, 2, 1]
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 0
    sweeps.prune()
    assert _left() == [0, 0, 0, 0]
    assert api.get(f"/batches/{told['id']}").status_code == 404


def _left() -> list[int]:
    managers = (Batch.objects, BatchItem.objects, Job.objects, IdempotencyKey.objects)
    return [manager.count() for manager in managers]


def test_a_job_stays_as_long_as_a_batch_tells_of_it(api: InProcessApi, settings: Any) -> None:
    """Also one that another request made, and also while the batch is open."""
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 0
    alone = api.json(a_probe(), headers={"Idempotency-Key": "k"}).json()["id"]
    told = submitted(api, {"old": a_probe(key="k"), "new": a_probe()})
    run(told["id"], "old", 1)
    sweeps.prune()
    assert batch(api, told["id"])["results"]["old"]["ok"] is True
    run(told["id"], "new", 1)
    assert batch(api, told["id"])["state"] == "finished"
    sweeps.prune()
    assert not Job.objects.filter(pk=alone).exists()


# ── What it costs, and who looks ─────────────────────────────────────────────────────────────────────────────────────


def test_reading_costs_one_query_however_many_items_there_are(api: InProcessApi) -> None:
    for names in (["a"], [f"j{number}" for number in range(60)]):
        told = submitted(api, probes(*names))
        run(told["id"], names[0], 1)
        cost = _queries_of_a_read(api, told["id"], sealed=len(names) == 1)
        assert cost == 2, "the key, and the batch"


def _queries_of_a_read(api: InProcessApi, batch_id: str, sealed: bool) -> int:
    if sealed:
        batch(api, batch_id)
    with CaptureQueriesContext(connection) as made:
        batch(api, batch_id)
    return len(made)


def test_submitting_and_sealing_cost_the_same_however_many_items_there_are(api: InProcessApi) -> None:
    costs = []
    for names in (["a", "b"], [f"j{number}" for number in range(40)]):
        effective.overrides.forget()  # type: ignore[attr-defined]
        with CaptureQueriesContext(connection) as made:
            told = submitted(api, probes(*names), deadline_seconds=60)
        submit = len(made)
        _now_is_the_deadline_of(told["id"])
        with CaptureQueriesContext(connection) as made:
            assert batch(api, told["id"])["state"] == "finished"
        costs.append((submit, len(made)))
    assert costs[0] == costs[1]
    assert costs[0][0] == 4, "the key, what operators have set, the admission, the look"
    assert costs[0][1] <= 16


def test_operators_see_batches_and_their_items_but_no_results(api: InProcessApi, admin_client: Client) -> None:
    told = submitted(api, probes("item-one", "item-two"), atomic=False)
    run(told["id"], "item-one", {"secret": "xyzzy"})
    for address in ("/admin/jobs/batch/", f"/admin/jobs/batch/{told['id']}/change/"):
        page = admin_client.get(address)
        assert page.status_code == 200
        assert told["id"] in page.content.decode()
        assert "xyzzy" not in page.content.decode()
    assert "item-two" in page.content.decode()
    assert f"/admin/jobs/job/{told['jobs']['item-two']}/change/" in page.content.decode()
    assert admin_client.post(f"/admin/jobs/batch/{told['id']}/delete/").status_code == 403
