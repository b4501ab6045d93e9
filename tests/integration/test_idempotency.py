"""A request that comes again under its key is answered with the job it made (P6, P7, P39a)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from jobs import admission, lifecycle, sweeps
from jobs.admission import Admitted, Rejected, Replayed
from jobs.door import idempotency
from jobs.door.idempotency import Idempotency, Mismatch
from jobs.models import IdempotencyKey, Job
from tests import job_rows
from tests.in_process_api import PROBE, InProcessApi, a_probe_node, claim_probe, problem
from tests.second_connections import Elsewhere, begun_behind
from tests.submissions import a_submission, submit

pytestmark = pytest.mark.django_db
KEY_LOOK_UP, STORED_LOOK_UP, CONTROLS, ADMISSION = 1, 1, 1, 1
BODY = {"type": PROBE, "params": {"seconds": 0}}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def send(api: InProcessApi, key: str = "k1", body: Any = None, headers: dict[str, str] | None = None) -> Any:
    return api.json(BODY if body is None else body, headers={"Idempotency-Key": key, **(headers or {})})


def test_a_request_that_comes_again_is_answered_with_the_job_as_it_is_now(api: InProcessApi) -> None:
    first = send(api)
    assert (first.status_code, first.headers.get("Idempotency-Replayed")) == (202, None)
    job_rows.succeed(claim_probe(a_probe_node()), {"slept": 0})
    again = send(api)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.headers["Location"] == first.headers["Location"]
    assert "Retry-After" not in again.headers
    assert (again.json()["id"], again.json()["state"]) == (first.json()["id"], "succeeded")
    assert Job.objects.count() == 1


def test_a_job_past_its_start_by_is_shown_expired(api: InProcessApi) -> None:
    job_id = send(api).json()["id"]
    Job.objects.filter(pk=job_id).update(start_by=Now() - timedelta(seconds=1))
    assert send(api).json()["state"] == "expired"


@pytest.mark.parametrize(
    "other",
    [{**BODY, "params": {"seconds": 1}}, {**BODY, "labels": {"a": "b"}}, {**BODY, "type": "no.such_type"}, [], "text"],
    ids=json.dumps,
)
def test_another_request_under_the_same_key_is_a_mismatch(api: InProcessApi, other: Any) -> None:
    send(api)
    problem(send(api, body=other), 422, "idempotency_mismatch")
    assert Job.objects.count() == 1


def test_a_deadline_and_the_order_of_members_make_no_other_request(api: InProcessApi) -> None:
    """P39a: callers compute what remains anew for each try; the first deadline stands."""
    first = send(api, body={**BODY, "deadline_seconds": 60})
    turned = dict(reversed(BODY.items()))
    for again in (
        send(api, body={**turned, "deadline_seconds": 30}),
        send(api, body={**turned, "deadline_at": "2031-01-01T00:00:00Z"}),
        send(api, headers={"X-Deadline-Ms": "5"}),
    ):
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json()["deadline_at"] == first.json()["deadline_at"]


def test_each_client_has_keys_of_its_own(api: InProcessApi) -> None:
    other = InProcessApi()
    ids = {send(caller).json()["id"] for caller in (api, other, api, other)}
    assert len(ids) == 2
    problem(send(other, body={**BODY, "labels": {"a": "b"}}), 422, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("one", "other"), [("abc", '"abc"'), (" abc ", "abc"), ('"a,b"', ' "a,b" '), ("~" * 255, f'"{"~" * 255}"')]
)
def test_a_key_is_the_same_quoted_or_not(api: InProcessApi, one: str, other: str) -> None:
    assert send(api, one).json()["id"] == send(api, other).json()["id"]


@pytest.mark.parametrize(
    "key", ["", '""', "a b", "a\tb", "ü", "x" * 256, '"a b"', "k,k", '"k","k"', 'a"b', '"a', 'W/"a"'], ids=repr
)
def test_what_is_no_key_is_said_and_nothing_is_made(api: InProcessApi, key: str) -> None:
    problem(send(api, key), 400, "bad_request")
    assert not Job.objects.exists()


def test_a_refusal_is_not_stored(api: InProcessApi) -> None:
    """The same key may come back, and is admitted once there is room."""
    heavy = {"type": PROBE, "params": {"seconds": 0, "cost_class": "heavy"}}
    others = [api.submit(params=heavy["params"]) for _ in range(8)]  # type: ignore[arg-type]
    problem(send(api, body=heavy), 503, "queue_full", retryable=True)
    assert not IdempotencyKey.objects.exists()
    api.cancel(others[0])
    assert send(api, body=heavy).status_code == 202


def test_a_replay_comes_before_validation_and_before_room(api: InProcessApi) -> None:
    """P7: what was accepted stays accepted, whatever has become of the type and the class since."""
    heavy = {"type": PROBE, "params": {"seconds": 0, "cost_class": "heavy"}}
    job_id = send(api, body=heavy).json()["id"]
    for _ in range(7):
        api.submit(params=heavy["params"])  # type: ignore[arg-type]
    problem(api.json(heavy), 503, "queue_full", retryable=True)
    assert send(api, body=heavy).json()["id"] == job_id


def test_a_cancelled_job_is_replayed_too(api: InProcessApi) -> None:
    job_id = send(api).json()["id"]
    lifecycle.cancel(job_id)
    assert (send(api).json()["id"], send(api).json()["state"]) == (job_id, "cancelled")


def test_what_a_key_costs(api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """At most two round trips after the look at the API key, and one for a replay; but for what operators have set, which a process asks twice a second."""
    with django_assert_num_queries(KEY_LOOK_UP + STORED_LOOK_UP + CONTROLS + ADMISSION):
        send(api)
    claim_probe(a_probe_node())
    with django_assert_num_queries(KEY_LOOK_UP + STORED_LOOK_UP):
        send(api)


def test_keys_are_kept_a_day_and_go_with_their_jobs() -> None:
    def stored() -> set[str]:
        return set(IdempotencyKey.objects.values_list("key", flat=True))

    for key in ("old", "new", "of a job that goes"):
        submit(idempotency=Idempotency(key, "f"))
    IdempotencyKey.objects.filter(key="old").update(created_at=Now() - timedelta(seconds=86_401))
    IdempotencyKey.objects.filter(key="new").update(created_at=Now() - timedelta(seconds=86_399))
    assert sweeps.prune() == 1
    assert stored() == {"new", "of a job that goes"}
    Job.objects.filter(idempotencykey__key="of a job that goes").delete()
    assert stored() == {"new"}


# ── At the door: two that come at once ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_the_first_of_its_key_gets_its_job(other: Elsewhere) -> None:
    asked = a_submission(idempotency=Idempotency("k1", "f"))
    second = begun_behind(lambda: admission.submit(asked), other, lambda: admission.submit(asked)).result(10)
    assert isinstance(second, Replayed)
    assert second.job == Job.objects.get()


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_another_request_of_its_key_is_told_of_the_mismatch(other: Elsewhere) -> None:
    one, another = (a_submission(idempotency=Idempotency("k1", fingerprint)) for fingerprint in "fg")
    waiting = begun_behind(lambda: admission.submit(one), other, lambda: admission.submit(another))
    with pytest.raises(Mismatch):
        waiting.result(10)


@pytest.mark.django_db(transaction=True)
def test_who_waits_longer_than_a_second_is_told_to_come_back(other: Elsewhere) -> None:
    asked = a_submission(idempotency=Idempotency("k1", "f"))
    with transaction.atomic():
        admission.submit(asked)
        answer = other.run(lambda: admission.submit(asked))
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.retry_after_seconds) == ("idempotency_in_flight", 1)
    assert isinstance(admission.submit(asked), Replayed)


@pytest.mark.django_db(transaction=True)
def test_other_keys_and_jobs_without_one_do_not_wait_for_a_key(other: Elsewhere) -> None:
    """Only the class's lock is shared, so it is held by nobody here."""
    client = job_rows.a_client()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('key:' || %s || ':k1', 0))", [client.pk])
        for key in (Idempotency("k2", "f"), None):
            asked = a_submission(idempotency=key)
            assert isinstance(other.run(lambda asked=asked: admission.submit(asked)), Admitted)  # type: ignore[misc]
        assert isinstance(other.run(lambda: submit(idempotency=Idempotency("k1", "f"))), Rejected)


def test_a_mismatch_names_the_key_and_what_to_do(api: InProcessApi) -> None:
    send(api)
    body = send(api, body={**BODY, "params": {"seconds": 2}}).json()
    assert "'k1'" in body["detail"]
    assert "new key" in body["detail"]


def test_the_method_and_the_path_are_part_of_the_request() -> None:
    made = {idempotency.read("k", method, path, {}).fingerprint for method in ("POST", "PUT") for path in ("/a", "/b")}
    assert len(made) == 4


@pytest.mark.parametrize("scopes", [("jobs:submit",), ("jobs:submit", "jobs:read")])
def test_a_key_that_may_not_read_is_told_no_results_by_sending_again(scopes: tuple[str, ...]) -> None:
    api = InProcessApi(*scopes)
    send(api)
    job_rows.succeed(claim_probe(a_probe_node()), {"secret": 1})
    assert send(api).json()["result"] == ({"secret": 1} if "jobs:read" in scopes else None)
