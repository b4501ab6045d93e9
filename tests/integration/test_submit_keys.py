"""Keys of calls, and the order of the checks around them (P6, P7, P39a)."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from jobs.models import ApiClient, Job
from jobs.submit import (
    IN_PROCESS,
    Admitted,
    BadKey,
    Mismatch,
    RateLimited,
    Replayed,
    submit,
)
from tests import job_rows
from tests.in_process_api import PROBE, InProcessApi, a_probe_node, claim_probe, problem

pytestmark = pytest.mark.django_db

PARAMS = {"seconds": 0}
HEAVY = {"seconds": 0, "cost_class": "heavy"}


def admitted(answer: object) -> Job:
    assert isinstance(answer, Admitted), answer
    return answer.job


def test_the_same_call_under_its_key_brings_the_same_job() -> None:
    first = admitted(submit(PROBE, PARAMS, key="k", deadline_seconds=60))
    job_rows.succeed(claim_probe(a_probe_node()))
    again = submit(PROBE, PARAMS, key="k", deadline_seconds=30)
    assert isinstance(again, Replayed)
    assert (again.job.pk, again.job.state, Job.objects.count()) == (first.pk, "succeeded", 1)
    with pytest.raises(Mismatch):
        submit(PROBE, {"seconds": 1}, key="k")


def test_a_key_that_was_sent_over_http_is_another_requests_here_and_so_the_other_way_round() -> None:
    api = InProcessApi()
    body = {"type": PROBE, "params": PARAMS}
    assert api.json(body, headers={"Idempotency-Key": "sent"}).status_code == 202
    with pytest.raises(Mismatch):
        submit(PROBE, PARAMS, key="sent", client=api.client.name)
    submit(PROBE, PARAMS, key="called", client=api.client.name)
    problem(api.json(body, headers={"Idempotency-Key": "called"}), 422, "idempotency_mismatch")


def test_a_replayed_job_past_its_start_by_is_shown_expired() -> None:
    submit(PROBE, PARAMS, key="k")
    Job.objects.update(start_by=Now() - timedelta(seconds=1))
    again = submit(PROBE, PARAMS, key="k")
    assert isinstance(again, Replayed)
    assert again.job.state == "expired"


def test_a_replay_comes_before_the_quota_and_before_validation() -> None:
    """P7: what was accepted stays accepted."""
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=1)
    first = admitted(submit(PROBE, PARAMS, key="k", client="often"))
    again = submit(PROBE, PARAMS, key="k", client="often")
    assert isinstance(again, Replayed)
    assert again.job.pk == first.pk


def test_the_quota_comes_before_validation() -> None:
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=1)
    submit(PROBE, PARAMS, client="often")
    assert isinstance(submit("no.such_type", client="often"), RateLimited)


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü"])
def test_what_is_no_key_is_said(key: str) -> None:
    with pytest.raises(BadKey):
        submit(PROBE, PARAMS, key=key)


def test_each_client_has_keys_of_its_own() -> None:
    job_rows.a_client("other")
    ids = {admitted(submit(PROBE, PARAMS, key="k", client=name)).pk for name in (IN_PROCESS, "other")}
    assert len(ids) == 2


def test_what_a_submit_costs(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """One look for the client, one round trip for admission; one more for a key."""
    submit(PROBE, PARAMS)
    with django_assert_num_queries(2):
        submit(PROBE, PARAMS)
    with django_assert_num_queries(3):
        submit(PROBE, PARAMS, key="k")
