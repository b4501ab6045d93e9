"""Batches that come again, and what one client may ask for: one key space with jobs, every item counts (P6, P7, P39a)."""

from typing import Any

import pytest
import redis
from django.conf import settings

from jobs.models import Batch, IdempotencyKey, Job
from tests.batch_calls import a_probe, batch, delete, post, probes, run, submitted
from tests.in_process_api import InProcessApi, a_probe_node, problem

pytestmark = pytest.mark.django_db

KEY = {"Idempotency-Key": "k1"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture
def _nobody_was_counted() -> None:
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        for key in server.scan_iter("*weighbridge:rate*"):
            server.delete(key)


def _limited(api: InProcessApi, **quotas: int) -> InProcessApi:
    type(api.client).objects.filter(pk=api.client.pk).update(**quotas)
    return api


# ── One key for all ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_that_comes_again_is_answered_with_the_batch_as_it_is_now(api: InProcessApi) -> None:
    first = post(api, probes("a", "b"), KEY, deadline_seconds=60)
    run(first.json()["id"], "a", 1)
    again = post(api, {name: a_probe(deadline_seconds=50) for name in ("a", "b")}, KEY, deadline_seconds=30)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.headers["Location"] == first.headers["Location"]
    assert again.json()["results"]["a"]["data"] == 1
    assert again.json()["deadline_at"] == first.json()["deadline_at"], "the first that was accepted stands"
    assert (Batch.objects.count(), Job.objects.count()) == (1, 2)


def test_a_key_stands_for_one_request_be_it_a_job_or_a_batch(api: InProcessApi) -> None:
    post(api, probes("a"), KEY)
    problem(post(api, probes("b"), KEY), 422, "idempotency_mismatch")
    problem(api.json(a_probe(), headers=KEY), 422, "idempotency_mismatch")
    assert api.json(a_probe(), headers={"Idempotency-Key": "k2"}).status_code == 202
    problem(post(api, probes("a"), {"Idempotency-Key": "k2"}), 422, "idempotency_mismatch")
    assert post(InProcessApi(), probes("b"), KEY).status_code == 202, "keys are each client's own"


def test_a_refused_batch_leaves_its_key_to_be_used_again(api: InProcessApi) -> None:
    others = [api.submit(params={"seconds": 0, "cost_class": "heavy"}) for _ in range(8)]
    problem(post(api, probes("a", cost_class="heavy"), KEY), 503, "queue_full", retryable=True)
    assert not IdempotencyKey.objects.exists()
    api.cancel(others[0])
    assert post(api, probes("a", cost_class="heavy"), KEY).status_code == 202


# ── A key for each ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_items_own_key_stands_for_the_job_that_it_would_be_by_itself(api: InProcessApi) -> None:
    alone = api.json(a_probe(), headers=KEY).json()["id"]
    told = submitted(api, {"old": a_probe(key="k1"), "new": a_probe(key="k2")})
    assert told["jobs"]["old"] == alone
    again = api.json(a_probe(), headers={"Idempotency-Key": "k2"})
    assert (again.json()["id"], again.headers["Idempotency-Replayed"]) == (told["jobs"]["new"], "true")
    other = submitted(api, {"old": a_probe(key="k1"), "new": a_probe(key="k2")})
    assert (other["jobs"], other["id"] != told["id"]) == (told["jobs"], True)
    assert Job.objects.count() == 2


def test_an_items_key_of_another_request_refuses_all_or_that_item(api: InProcessApi) -> None:
    api.json(a_probe("heavy"), headers=KEY)
    problem(post(api, {"a": a_probe(key="k1"), "b": a_probe()}), 422, "idempotency_mismatch")
    assert Job.objects.count() == 1
    told = submitted(api, {"a": a_probe(key="k1"), "b": a_probe()}, atomic=False)
    assert told["results"]["a"]["error"]["code"] == "idempotency_mismatch"
    assert told["results"]["a"]["error"]["retryable"] is False


def test_the_key_of_the_batch_is_no_items(api: InProcessApi) -> None:
    told = problem(post(api, {"a": a_probe(key="k1")}, KEY), 422, "invalid_request")
    assert told["errors"][0]["loc"] == ["jobs", "a", "key"]


def test_a_batch_does_not_cancel_a_job_that_was_accepted_for_another_request(api: InProcessApi) -> None:
    alone = api.json(a_probe(), headers=KEY).json()["id"]
    told = submitted(api, {"old": a_probe(key="k1"), "new": a_probe()})
    cancelled = delete(api, told["id"]).json()
    assert (api.job(alone)["state"], api.job(told["jobs"]["new"])["state"]) == ("queued", "cancelled")
    assert cancelled["results"]["old"]["error"]["code"] == "cancelled"
    assert batch(api, told["id"]) == cancelled


def test_a_batch_of_jobs_that_are_there_already_needs_no_room(api: InProcessApi) -> None:
    jobs = {f"j{number}": a_probe("heavy", key=f"k{number}") for number in range(8)}
    first = submitted(api, jobs)
    problem(post(api, {"x": a_probe("heavy")}), 503, "queue_full", retryable=True)
    assert submitted(api, jobs)["jobs"] == first["jobs"]


# ── Quotas ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_item_counts_as_a_submit(api: InProcessApi, _nobody_was_counted: None) -> None:
    _limited(api, submits_per_minute=5)
    first = post(api, probes("a", "b", "c"))
    assert first.headers["RateLimit"].startswith('"submits";r=2;')
    problem(post(api, probes("a", "b", "c")), 429, "rate_limited", retryable=True)
    assert post(api, probes("a", "b")).status_code == 202
    assert Job.objects.count() == 5
    problem(post(api, probes(*"abcdef")), 422, "batch_too_large")


def test_each_by_itself_as_many_are_submitted_as_the_minute_has_left(
    api: InProcessApi, _nobody_was_counted: None
) -> None:
    _limited(api, submits_per_minute=2)
    response = post(api, probes("a", "b", "c"), atomic=False)
    assert (response.status_code, response.headers["RateLimit"].startswith('"submits";r=0;')) == (202, True)
    assert response.json()["results"]["c"]["error"]["code"] == "rate_limited"
    problem(post(api, probes("a"), atomic=False), 429, "rate_limited", retryable=True)


def test_every_item_counts_among_the_jobs_that_a_client_may_have(api: InProcessApi) -> None:
    _limited(api, max_jobs=3)
    api.submit()
    refused = post(api, probes("a", "b", "c"))
    problem(refused, 429, "too_many_jobs", retryable=True)
    assert refused.headers["RateLimit-Policy"] == '"jobs";q=3'
    assert refused.headers["RateLimit"] == f'"jobs";r=2;t={refused.headers["Retry-After"]}'
    assert Job.objects.count() == 1
    told = submitted(api, probes("a", "b", "c"), atomic=False)
    assert [name for name, job in told["jobs"].items() if job] == ["a", "b"]
    assert told["results"]["c"]["error"]["code"] == "too_many_jobs"
    problem(post(api, probes("a"), atomic=False), 503, "too_many_jobs", retryable=True)


@pytest.mark.parametrize("hindrance", ["its class is full", "its type is not known", "its deadline has passed"])
def test_an_item_that_is_refused_for_another_reason_takes_no_place_of_the_quota(
    api: InProcessApi, hindrance: str
) -> None:
    """Each of the ten stood in the place of one that could be admitted once, and nothing was."""
    a_probe_node(types=("probe.sleep",))
    refused, code = {
        "its class is full": (a_probe("heavy"), "queue_full"),
        "its type is not known": (a_probe() | {"type": "probe.spin"}, "type_unavailable"),
        "its deadline has passed": (a_probe(deadline_seconds=0), "deadline_infeasible"),
    }[hindrance]
    submitted(api, probes(*"abcdefgh", cost_class="heavy"))  # as many as it may hold
    _limited(api, max_jobs=8 + 10)
    told = submitted(api, {f"r{number}": refused for number in range(10)} | probes(*"abcde"), atomic=False)
    assert [name for name, job in told["jobs"].items() if job] == [*"abcde"]
    assert {result["error"]["code"] for result in told["results"].values()} == {code}


def test_what_is_left_of_the_quota_goes_to_the_items_in_their_order_whatever_their_class(api: InProcessApi) -> None:
    _limited(api, max_jobs=3)
    classes_of = {"a": "light", "b": "heavy", "c": "light", "d": "heavy"}
    told = submitted(api, {name: a_probe(cost_class) for name, cost_class in classes_of.items()}, atomic=False)
    assert [name for name, job in told["jobs"].items() if job] == ["a", "b", "c"]
    assert told["results"]["d"]["error"]["code"] == "too_many_jobs"
    assert told["room"]["heavy"] == 7


def test_none_is_admitted_that_the_minute_has_no_room_for_and_the_answer_says_so(
    api: InProcessApi, _nobody_was_counted: None
) -> None:
    """It spoke of a full class once."""
    _limited(api, submits_per_minute=1)
    answer = post(api, {"late": a_probe(deadline_seconds=0), "b": a_probe()}, atomic=False)
    told = problem(answer, 503, "rate_limited", retryable=True)
    assert (set(told), told["results"]["late"]["error"]["code"]) == ({"results", "room"}, "deadline_infeasible")
    assert answer.json()["detail"].startswith("None of its jobs was admitted. Item 'b': The client had submitted")


def test_where_each_is_refused_for_good_nobody_is_told_to_come_back(api: InProcessApi) -> None:
    api.json(a_probe(), headers=KEY)
    answer = post(api, {"a": a_probe("heavy", key="k1"), "late": a_probe(deadline_seconds=0)}, atomic=False)
    problem(answer, 503, "idempotency_mismatch", retryable=False)
    assert answer.json()["detail"] == "None of its jobs was admitted. Item 'a': Its key belongs to another request."
    problem(post(api, {"late": a_probe(deadline_seconds=0)}, atomic=False), 503, "deadline_infeasible", retryable=False)
    assert Job.objects.count() == 1


def test_a_batch_that_a_client_may_never_have_at_once_is_too_large(api: InProcessApi) -> None:
    _limited(api, max_jobs=2)
    problem(post(api, probes("a", "b", "c")), 422, "batch_too_large")


def test_a_client_is_told_how_large_a_batch_may_be(api: InProcessApi) -> None:
    limits: dict[str, Any] = api.get("/client").json()["limits"]
    assert (limits["batch_jobs"], limits["batch_bytes"]) == (100, 4 * 1024 * 1024)
