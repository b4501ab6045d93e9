"""Prefer: wait on batches: until the seal, of which the deadline is a bound (P31, P38)."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobs import batches, notify, telemetry
from jobs.api.waiting import MARGIN_SECONDS, WAITED, Hold
from jobs.models import Batch, Job
from jobs.notify import Waiters
from tests.batch_calls import BATCHES, a_probe, post, probes, run, send, start, submitted
from tests.in_process_api import InProcessApi, a_probe_node, claim_probe, problem
from tests.waiting import eventually

pytestmark = pytest.mark.django_db

WAIT = {"Prefer": "wait=10"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def waiters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiters]:
    """Without the thread that listens: what it does is tried elsewhere."""
    mine = Waiters(most=2, most_per_client=2)
    monkeypatch.setattr(mine, "_listen", lambda: None)
    monkeypatch.setattr(notify, "WAITERS", mine)
    yield mine


def _again(api: InProcessApi, first: Any) -> Any:
    """As the server asks once more."""
    return send(api, {}, WAIT, **{WAITED: first.hold})


def _sealed(answer: Any) -> Any:
    """The answer, if it tells of a batch that is."""
    return answer if (answer.status_code, answer.json()["state"]) == (200, "finished") else None


def test_a_submit_that_waits_is_answered_with_the_results_once_it_is_sealed(
    api: InProcessApi, waiters: Waiters
) -> None:
    first = post(api, probes("a", "b"), WAIT)
    assert (first.status_code, first.json()["state"]) == (202, "running")
    assert "Preference-Applied" not in first.headers, "it is what is said if nothing better comes"
    hold = first.hold
    assert isinstance(hold, Hold)
    assert (hold.asked, hold.seconds, hold.cancel_if_left, len(waiters)) == (10, 10, True, 1)
    for name in "ab":
        run(first.json()["id"], name, name)
    last = _again(api, first)
    assert (last.status_code, last.json()["state"], last.json()["results"]["b"]["data"]) == (200, "finished", "b")
    assert last.headers["Preference-Applied"] == "wait=10"
    assert "Prefer" in last.headers["Vary"]
    assert last.headers["Location"] == first.headers["Location"]
    assert Batch.objects.count() == 1
    hold.release()
    assert len(waiters) == 0


def test_it_waits_no_longer_than_to_the_deadline(api: InProcessApi) -> None:
    first = post(api, probes("a"), WAIT, deadline_seconds=1.2)
    assert 0 < first.hold.seconds <= 1.2 + MARGIN_SECONDS
    last = eventually(lambda: _sealed(_again(api, first)), within_seconds=5)
    assert last.json()["results"]["a"]["error"]["code"] == "deadline_exceeded"
    assert last.headers["Preference-Applied"] == "wait=10"


def test_a_submit_whose_batch_is_not_sealed_in_time_is_accepted(api: InProcessApi) -> None:
    first = post(api, probes("a"), WAIT)
    last = _again(api, first)
    assert (last.status_code, last.json()["state"]) == (202, "running")
    assert (last.headers["Preference-Applied"], last.headers["Retry-After"]) == ("wait=10", "1")


def test_what_was_refused_and_the_room_are_told_at_last_too(api: InProcessApi) -> None:
    jobs = probes(*(f"j{number}" for number in range(9)), cost_class="heavy")
    first = post(api, jobs, WAIT, atomic=False)
    last = _again(api, first)
    assert last.json()["room"] == first.json()["room"] == {"heavy": 0}


def test_a_get_waits_too(api: InProcessApi) -> None:
    told = submitted(api, probes("a"))
    first = api.get(f"/batches/{told['id']}", headers=WAIT)
    assert (first.status_code, first.hold.cancel_if_left) == (200, False)
    run(told["id"], "a")
    last = api.send("GET", f"{BATCHES}/{told['id']}", headers=WAIT, **{WAITED: first.hold})
    assert (last.json()["state"], last.headers["Preference-Applied"]) == ("finished", "wait=10")
    at_once = api.get(f"/batches/{told['id']}", headers=WAIT)
    assert not hasattr(at_once, "hold")
    assert at_once.headers["Preference-Applied"] == "wait=10"


def test_a_batch_that_is_sealed_between_the_look_and_the_wait_is_told_at_once(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = submitted(api, probes("a"))
    mark = notify.mark_batch

    def meanwhile(batch_id: Any, seconds: float) -> bool:
        batches.cancel(batch_id)
        return mark(batch_id, seconds)

    monkeypatch.setattr(notify, "mark_batch", meanwhile)
    assert api.get(f"/batches/{told['id']}", headers=WAIT).hold.ended.done()


def test_past_the_caps_a_caller_is_answered_at_once(api: InProcessApi, waiters: Waiters) -> None:
    """Those who wait for jobs count too."""
    assert hasattr(api.json(a_probe(), headers=WAIT), "hold")
    assert [hasattr(post(api, probes("a"), WAIT), "hold") for _ in range(2)] == [True, False]
    assert len(waiters) == 2


def test_the_same_request_again_waits_for_the_same_batch(api: InProcessApi) -> None:
    headers = {**WAIT, "Idempotency-Key": "k"}
    first, again = post(api, probes("a"), headers), post(api, probes("a"), headers)
    assert (first.hold.cancel_if_left, again.hold.subject.id) == (False, first.hold.subject.id)
    run(first.json()["id"], "a")
    assert (_again(api, again).status_code, _again(api, again).headers["Idempotency-Replayed"]) == (200, "true")
    assert post(api, probes("a"), headers).status_code == 200
    assert post(api, probes("a"), {"Idempotency-Key": "k"}).status_code == 202


def test_a_job_may_not_wait_for_a_batch_with_one_of_its_class(api: InProcessApi) -> None:
    running = api.submit(params={"seconds": 0, "cost_class": "heavy"})
    claim_probe(a_probe_node("heavy"))
    within = {"X-Weighbridge-Job": running}
    mixed = probes("a") | {"h": a_probe("heavy")}
    assert problem(post(api, mixed, {**WAIT, **within}), 422, "would_deadlock") == {"cost_class": "heavy"}
    assert not Batch.objects.exists()
    assert hasattr(post(api, probes("a"), {**WAIT, **within}), "hold")
    assert post(api, mixed, within).status_code == 202, "it may submit one"


def test_nor_for_one_that_is_there_already_by_whichever_way_it_asks(api: InProcessApi) -> None:
    running = api.submit(params={"seconds": 0, "cost_class": "heavy"})
    claim_probe(a_probe_node("heavy"))
    mixed, keyed = probes("a") | {"h": a_probe("heavy")}, {"Idempotency-Key": "k"}
    told = post(api, mixed, keyed).json()
    within = {**WAIT, "X-Weighbridge-Job": running}
    problem(post(api, mixed, keyed | within), 422, "would_deadlock")
    problem(api.get(f"/batches/{told['id']}", headers=within), 422, "would_deadlock")
    run(told["id"], "h")
    assert hasattr(api.get(f"/batches/{told['id']}", headers=within), "hold"), "the other class is another process's"
    assert hasattr(post(api, mixed, keyed | within), "hold")


# ── Callers who leave ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)  # as its own thread would have a connection of its own
def test_the_queued_jobs_of_a_caller_that_left_are_cancelled_and_running_ones_go_on(api: InProcessApi) -> None:
    before = telemetry.ORPHANED._value.get()
    keyed = {"keyed": a_probe(key="k"), "keyed and runs": a_probe(key="r")}
    first = post(api, probes("runs", "waits") | keyed, WAIT)
    told = first.json()
    start(told["id"], "runs")
    start(told["id"], "keyed and runs")  # nobody's orphan: its caller may come back to it
    first.hold.caller_left()
    states = {name: api.job(job)["state"] for name, job in told["jobs"].items()}
    assert states == {"runs": "running", "waits": "cancelled", "keyed": "queued", "keyed and runs": "running"}
    assert api.job(told["jobs"]["runs"])["cancel_requested_at"] is None
    assert telemetry.ORPHANED._value.get() == before + 1


def test_whoever_can_come_back_may_leave(api: InProcessApi) -> None:
    first = post(api, probes("a"), {**WAIT, "Idempotency-Key": "k"})
    first.hold.caller_left()
    assert Job.objects.get().state == "queued"
