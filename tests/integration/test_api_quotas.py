"""What one client may ask for: submits a minute, jobs at once; off unless an operator sets them (P6, P7, P32)."""

import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client

from jobs import broker, keys, lifecycle, telemetry
from jobs.door import quotas
from jobs.models import ApiKey, Job
from jobs.states import State
from tests import job_rows
from tests.in_process_api import InProcessApi, a_probe_node, claim_probe, problem
from tests.second_connections import at_once

pytestmark = pytest.mark.django_db(transaction=True)

LIMITS = re.compile(r'"submits";r=(\d+);t=(\d+)')


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def _nobody_was_counted() -> Iterator[None]:
    def forget() -> None:
        with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
            for key in server.scan_iter("*weighbridge:rate*"):
                server.delete(key)

    forget()
    yield
    forget()


def _limited(api: InProcessApi, **quotas: float) -> InProcessApi:
    type(api.client).objects.filter(pk=api.client.pk).update(**quotas)
    return api


def test_without_a_limit_nothing_is_said_of_one(api: InProcessApi) -> None:
    answer = api.post("probe.sleep", {"seconds": 0})
    assert answer.status_code == 202
    assert not {name for name in answer.headers if name.startswith("RateLimit")}


def test_a_client_is_told_what_is_left_and_then_when_there_is_more(api: InProcessApi) -> None:
    _limited(api, submits_per_minute=3)
    left = []
    for _ in range(3):
        answer = api.post("probe.sleep", {"seconds": 0})
        assert (answer.status_code, answer.headers["RateLimit-Policy"]) == (202, '"submits";q=3;w=60')
        match = LIMITS.fullmatch(answer.headers["RateLimit"])
        assert match
        left.append(int(match[1]))
    assert left == [2, 1, 0]
    before = telemetry.RATE_LIMITED._value.get()
    refused = api.post("probe.sleep", {"seconds": 0})
    problem(refused, 429, "rate_limited", retryable=True)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit"] == f'"submits";r=0;t={refused.headers["Retry-After"]}'
    assert Job.objects.count() == 3
    assert telemetry.RATE_LIMITED._value.get() == before + 1


def test_a_limit_is_one_clients_and_of_submits_alone(api: InProcessApi) -> None:
    _limited(api, submits_per_minute=1)
    job_id = api.submit()
    problem(api.post("probe.sleep", {"seconds": 0}), 429, "rate_limited", retryable=True)
    assert api.get(f"/jobs/{job_id}").status_code == 200
    assert InProcessApi().post("probe.sleep", {"seconds": 0}).status_code == 202


def test_a_request_that_comes_again_under_its_key_is_answered_whatever_the_rate(api: InProcessApi) -> None:
    _limited(api, submits_per_minute=1)
    first = api.json({"type": "probe.sleep", "params": {"seconds": 0}}, headers={"Idempotency-Key": "k"})
    again = api.json({"type": "probe.sleep", "params": {"seconds": 0}}, headers={"Idempotency-Key": "k"})
    assert again.json()["id"] == first.json()["id"]


def test_while_nobody_can_count_nobody_is_held_back(api: InProcessApi) -> None:
    _limited(api, submits_per_minute=1)
    before = telemetry.RATE_UNKNOWN._value.get()
    broker.breaker.open()
    assert [api.post("probe.sleep", {"seconds": 0}).status_code for _ in range(3)] == [202] * 3
    assert telemetry.RATE_UNKNOWN._value.get() == before + 3


def test_a_client_has_at_most_so_many_jobs(api: InProcessApi) -> None:
    _limited(api, max_jobs=2)
    first, _ = api.submit(), api.submit()
    refused = api.post("probe.sleep", {"seconds": 0})
    problem(refused, 429, "too_many_jobs", retryable=True)
    assert refused.headers["RateLimit-Policy"] == '"jobs";q=2'
    assert refused.headers["RateLimit"] == f'"jobs";r=0;t={refused.headers["Retry-After"]}'
    assert Job.objects.count() == 2
    claim_probe(a_probe_node())
    problem(api.post("probe.sleep", {"seconds": 0}), 429, "too_many_jobs", retryable=True)
    assert api.get("/client").json()["quotas"].items() >= {"submits_per_minute": None, "max_jobs": 2, "jobs": 2}.items()
    lifecycle.settle(api.client.jobs.get(pk=first).pk, 1, lifecycle.Outcome(State.SUCCEEDED))
    assert api.post("probe.sleep", {"seconds": 0}).status_code == 202


def test_a_job_past_its_time_holds_no_place_of_its_clients_either(api: InProcessApi) -> None:
    _limited(api, max_jobs=1)
    api.submit()
    Job.objects.update(start_by=job_rows.later(-1))
    assert api.get("/client").json()["quotas"]["jobs"] == 0
    assert api.post("probe.sleep", {"seconds": 0}).status_code == 202


def test_many_at_once_have_no_more_than_one_after_the_other(api: InProcessApi) -> None:
    _limited(api, max_jobs=5)
    statuses = at_once(*[lambda: api.post("probe.sleep", {"seconds": 0}).status_code] * 12)
    assert sorted(statuses) == [202] * 5 + [429] * 7


def test_a_client_knows_itself(api: InProcessApi) -> None:
    told: dict[str, Any] = InProcessApi("jobs:read", "jobs:submit").get("/client").json()
    assert told["scopes"] == ["jobs:read", "jobs:submit"]
    uploads = {"uploads_bytes": 0, "max_uploads_bytes": 2**30}
    rates = {"submits_per_minute": None, "submits": None}
    places = {"max_jobs": None, "jobs": 0, "max_running": None, "running": 0}
    assert told["quotas"] == {**rates, **places, **uploads}
    assert told["weight"] == 1.0
    assert told["limits"]["page_size"] == 100
    assert told["limits"]["wait_seconds"] == 60
    problem(InProcessApi("jobs:submit").get("/client"), 403, "forbidden")


@pytest.mark.parametrize(("ends_in", "told"), [(-0.01, 60), (0.2, 1), (59.5, 60)])
def test_what_was_counted_just_now_is_counted_for_a_minute(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch, ends_in: float, told: int
) -> None:
    """The library says then that the window ends at once."""
    stats = SimpleNamespace(reset_time=time.time() + ends_in, remaining=4)
    limiter = SimpleNamespace(hit=lambda *_, **__: True, get_window_stats=lambda *_: stats)
    monkeypatch.setattr(quotas, "_limiter", lambda: limiter)
    _limited(api, submits_per_minute=5).client.refresh_from_db()
    rate = quotas.count_submit(api.client)
    assert rate is not None and rate.more_in_seconds == told


def test_a_client_sees_how_much_of_its_quotas_it_has_used(api: InProcessApi) -> None:
    node = a_probe_node()
    _limited(api, submits_per_minute=5, max_jobs=4, max_running=2, weight=2.5)
    for _ in range(3):
        api.submit()
    assert claim_probe(node) is not None
    told = api.get("/client").json()
    used = {name: told["quotas"][name] for name in ("submits", "jobs", "max_running", "running")}
    assert (used, told["weight"]) == ({"submits": 3, "jobs": 3, "max_running": 2, "running": 1}, 2.5)
    broker.breaker.open()
    assert api.get("/client").json()["quotas"]["submits"] is None


def test_an_operator_sets_quotas_and_rotates_a_key_which_is_shown_once(api: InProcessApi, admin_client: Client) -> None:
    page = f"/admin/jobs/apiclient/{api.client.pk}/change/"
    answer = admin_client.post(page, {"name": api.client.name, "submits_per_minute": "0", "max_jobs": ""})
    assert "greater than or equal to 1" in answer.content.decode()
    admin_client.post(page, {"name": api.client.name, "submits_per_minute": "30", "max_jobs": ""})
    api.client.refresh_from_db()
    assert (api.client.submits_per_minute, api.client.max_jobs) == (30, None)

    [old] = api.client.keys.all()
    chosen = {"action": "rotate", "_selected_action": [old.pk]}
    made = admin_client.post("/admin/jobs/apikey/", chosen).content.decode()
    match = re.search(r"wb_[A-Za-z0-9_-]{43}", made)
    assert match
    new = keys.live_key(match[0])
    assert new is not None
    assert (new.client_id, new.scopes) == (api.client.pk, old.scopes)
    old.refresh_from_db()
    assert old.expires_at is not None
    assert api.get("/client").status_code == 200, "it goes on working for a day"
    assert match[0] not in admin_client.get("/admin/jobs/apikey/").content.decode()
    both = {"action": "rotate", "_selected_action": list(ApiKey.objects.values_list("pk", flat=True))}
    assert "Choose one key" in admin_client.post("/admin/jobs/apikey/", both, follow=True).content.decode()
