"""What callers are told who have their share of a class: 503 `share_full`, of a job, of an item, of a batch and of a call (P10a)."""

from typing import Any

import pytest
from django.db import connection

from jobs import registry, telemetry
from jobs.models import ApiClient, Batch, Job, LimitKey
from jobs.registry import JobType, NoParams
from jobs.submit import Rejected, submit
from tests import batch_calls
from tests.batch_calls import probes
from tests.in_process_api import InProcessApi, a_probe_node, problem

pytestmark = pytest.mark.django_db

HEAVY: dict[str, Any] = {"seconds": 0, "cost_class": "heavy"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture
def crowded(api: InProcessApi) -> None:
    """Of class heavy, with two slots and room for eight that wait, another client has one place, and `api` all five of its share."""
    a_probe_node("heavy", processes=2)
    InProcessApi().submit(params=HEAVY)
    for _ in range(5):
        api.submit(params=HEAVY)


def test_who_has_its_share_is_told_how_much_that_is_and_when_to_come_back(api: InProcessApi, crowded: None) -> None:
    counter = telemetry.REJECTED.labels("heavy", "share_full")._value
    before = counter.get()
    response = api.post("probe.sleep", HEAVY)
    members = problem(response, 503, "share_full", retryable=True)
    assert int(response.headers["Retry-After"]) == members["retry_after_seconds"] == 5  # nothing has left yet
    assert members.items() >= {"cost_class": "heavy", "share": 5, "waiting": 6, "running": 0, "slots": 2}.items()
    assert members["room"] == 4
    assert "this client has 5 jobs there, and its share is 5" in response.json()["detail"]
    assert counter.get() == before + 1
    assert Job.objects.count() == 6
    assert InProcessApi().submit(params=HEAVY), "who has none of it yet is let in"


def test_a_call_from_django_is_told_so_too(api: InProcessApi, crowded: None) -> None:
    refused = submit("probe.sleep", HEAVY, client=api.client.name)
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.retryable) == ("share_full", True)
    assert refused.share is not None
    assert (refused.share.held, refused.share.most) == (5, 5)


def test_a_key_that_has_its_share_is_named(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    registry.register(JobType("tests.keyed", print, NoParams, "heavy", limit_keys=lambda params: ["licence"]))
    a_probe_node("heavy", processes=2, types=("tests.keyed", "probe.sleep"))
    LimitKey.objects.create(pattern="lic*", maximum=1)
    InProcessApi().submit(params=HEAVY)
    for each in (InProcessApi() for _ in range(5)):
        assert each.json({"type": "tests.keyed"}).status_code == 202
    response = api.json({"type": "tests.keyed"})
    assert problem(response, 503, "share_full", retryable=True)["share"] == 5
    assert "limit key 'licence' has 5 jobs there" in response.json()["detail"]
    api.submit(params=HEAVY)


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def nobody_else_but_a_little(api: InProcessApi, own: int) -> None:
    a_probe_node("heavy", processes=2)
    InProcessApi().submit(params=HEAVY)
    for _ in range(own):
        api.submit(params=HEAVY)


def test_each_item_of_a_batch_counts(api: InProcessApi) -> None:
    nobody_else_but_a_little(api, 3)
    batch = batch_calls.submitted(api, probes("a", "b", "c", "d", cost_class="heavy"), atomic=False)
    refused = {name: result["error"]["code"] for name, result in batch["results"].items()}
    assert refused == {"c": "share_full", "d": "share_full"}
    assert batch["results"]["c"]["error"]["retryable"] is True
    assert batch["room"] == {"heavy": 4}, "which others may have"


def test_an_atomic_batch_that_would_go_beyond_the_share_is_refused_as_a_whole(api: InProcessApi) -> None:
    nobody_else_but_a_little(api, 3)
    response = batch_calls.post(api, probes("a", "b", "c", cost_class="heavy"))
    members = problem(response, 503, "share_full", retryable=True)
    assert members["share"] == 5
    assert [error["loc"] for error in members["errors"]] == [["jobs", "c"]]
    assert not Batch.objects.exists()
    batch_calls.submitted(api, probes("a", "b", cost_class="heavy"))


def test_a_batch_larger_than_any_share_waits_for_the_others_to_be_gone(api: InProcessApi) -> None:
    nobody_else_but_a_little(api, 0)
    response = batch_calls.post(api, probes(*"abcdefg", cost_class="heavy"))
    assert problem(response, 503, "share_full", retryable=True)["retry_after_seconds"] == 60


def test_a_batch_of_which_no_item_is_within_the_share_is_refused_for_it(api: InProcessApi, crowded: None) -> None:
    response = batch_calls.post(api, probes("a", "b", cost_class="heavy"), atomic=False)
    members = problem(response, 503, "share_full", retryable=True)
    assert {result["error"]["code"] for result in members["results"].values()} == {"share_full"}
    assert members["share"] == 5
    assert members["room"] == {"heavy": 4}


def test_in_a_batch_a_limit_key_is_counted_item_by_item(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one key that is held and the jobs that name none there are two parties, of five places each."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    registry.register(JobType("tests.keyed", print, NoParams, "heavy", limit_keys=lambda params: ["x"]))
    registry.register(JobType("tests.free", print, NoParams, "heavy", limit_keys=lambda params: ["free"]))
    a_probe_node("heavy", processes=2, types=("tests.keyed", "tests.free", "probe.sleep"))
    LimitKey.objects.create(pattern="x", maximum=1)
    for each in (InProcessApi() for _ in range(4)):
        assert each.json({"type": "tests.keyed"}).status_code == 202
    ApiClient.objects.filter(pk=api.client.pk).update(weight=100)  # so that its own share is no matter
    items = {name: {"type": kind} for name, kind in zip("abcd", ["tests.free", "tests.keyed"] * 2, strict=True)}
    batch = batch_calls.submitted(api, items, atomic=False)
    assert {name: result["error"]["code"] for name, result in batch["results"].items()} == {"d": "share_full"}


def test_what_was_refused_in_a_batch_wants_room_too(api: InProcessApi) -> None:
    """Nine places are taken by one that was alone; two more are one too many."""
    a_probe_node("heavy", processes=2)
    alone = InProcessApi()
    for _ in range(9):
        alone.submit(params=HEAVY)
    problem(batch_calls.post(api, probes("a", "b", cost_class="heavy")), 503, "queue_full", retryable=True)
    problem(alone.post("probe.sleep", HEAVY), 503, "share_full", retryable=True)
    api.submit(params=HEAVY)


def test_what_waits_before_a_batch_s_items_is_looked_at_once_for_each_flow(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty items in two flows cost four looks more with deadlines than without: without the lock, and under it."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    registry.register(JobType("tests.costly", print, NoParams, "light", cost=0.01))
    a_probe_node("light", types=("tests.costly",))
    items = {f"i{n}": {"type": "tests.costly", "flow": f"f{n % 2}"} for n in range(30)}
    at_first = _looks()
    batch_calls.submitted(api, items)
    without = _looks() - at_first
    batch_calls.submitted(api, {name: item | {"deadline_seconds": 60} for name, item in items.items()})
    assert _looks() - at_first - 2 * without == 2 * 2


def _looks() -> int:
    """At the clocks of classes, as each look for a place takes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'jobs_fairclock'")
        return int(cursor.fetchone()[0])
