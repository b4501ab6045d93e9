"""Classes, types, health and metrics."""

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pybreaker
import pytest
from django.db.models.functions import Now

from jobs import broker, classes, nodes, queries, registry
from jobs.control import changing
from jobs.control.changing import Operator
from jobs.files.upload_ids import found_in
from jobs.keys import OPS_READ, READ, SUBMIT
from jobs.models import Job, Upload, WorkerNode
from tests.in_process_api import PROBE, InProcessApi, Web, a_probe_node, claim_probe, problem
from tests.waiting import eventually

LIMITS = {"timeout_seconds", "ceiling_seconds", "max_wait_seconds", "params_bytes", "result_bytes"}
CLASS_KEYS = {
    *(
        "name",
        "accepting",
        "paused",
        "draining",
        "waiting",
        "max_waiting",
        "running",
        "slots",
        "workers",
        "throughput_per_second",
    ),
    *("estimated_wait_seconds", "retry_after_seconds", "backlog_seconds", "max_backlog_seconds", "observed_at"),
    *LIMITS,
}
TYPE_KEYS = {"name", "description", "cost_class", "max_attempts", "params_schema", "example"} | LIMITS


@pytest.fixture
def api(db: None) -> InProcessApi:
    return InProcessApi()


def test_classes_come_with_what_waits_runs_and_could(api: InProcessApi) -> None:
    node = a_probe_node(processes=3)
    for _ in range(4):
        api.submit()
    claim_probe(node)
    told = api.get("/classes").json()["classes"]
    assert [c["name"] for c in told] == list(classes.declared())
    assert all(c.keys() == CLASS_KEYS for c in told)
    light = {
        "name": "light",
        "accepting": True,
        "paused": False,
        "draining": False,
        "waiting": 3,
        "max_waiting": 100,
        "running": 1,
        "slots": 3,
        "workers": 1,
        "throughput_per_second": None,
        "estimated_wait_seconds": {"p50": None, "p95": None},
        "retry_after_seconds": 5,
        "backlog_seconds": 0,
        "max_backlog_seconds": 8,
        "timeout_seconds": 10,
        "ceiling_seconds": 30,
        "max_wait_seconds": 10,
        "params_bytes": 65_536,
        "result_bytes": 1_048_576,
    }
    observed_at = told[0]["observed_at"]
    assert told[0] == {**light, "observed_at": observed_at} == api.get("/classes/light").json()
    api.submit()
    *_, last_seen, not_seen = Job.objects.order_by("sequence").values_list("accepted_at", flat=True)
    assert last_seen - timedelta(milliseconds=1) <= datetime.fromisoformat(observed_at) <= not_seen, "by the database"


def test_workers_are_nodes_that_live(api: InProcessApi) -> None:
    """Also one that is stopping: it runs what it has begun."""
    assert api.get("/classes/light").json()["workers"] == 0
    queries.class_view.forget()  # type: ignore[attr-defined]
    nodes_of = [a_probe_node(processes=2) for _ in range(3)]
    nodes.stopping(nodes_of[0].id)
    nodes.stopped(nodes_of[1].id)
    told = api.get("/classes/light").json()
    assert (told["workers"], told["slots"]) == (2, 2)


@pytest.mark.parametrize(("held", "accepting"), [(7, True), (8, False)])
def test_a_class_accepts_until_it_is_full(api: InProcessApi, held: int, accepting: bool) -> None:
    for _ in range(held):
        api.submit(params={"seconds": 0, "cost_class": "heavy"})
    assert api.get("/classes/heavy").json()["accepting"] is accepting


def test_what_classes_tell_is_at_most_a_second_old(api: InProcessApi) -> None:
    assert api.get("/classes/light").json()["waiting"] == 0
    told_at = time.monotonic()
    api.submit()

    def told_anew() -> bool:
        asked_at = time.monotonic()
        anew = bool(api.get("/classes/light").json()["waiting"] == 1)
        assert anew or asked_at - told_at <= 1
        return anew

    eventually(told_anew)


def test_types_are_all_there_is_to_submit(api: InProcessApi) -> None:
    told = api.get("/types").json()["types"]
    assert [t["name"] for t in told] == registry.names()
    assert all(t.keys() == TYPE_KEYS for t in told)


def test_a_type_shows_how_to_call_it(api: InProcessApi) -> None:
    told = api.get("/types/routes.optimize").json()
    assert told["cost_class"] == "heavy"
    assert told["params_schema"]["additionalProperties"] is False
    assert told["params_schema"]["required"] == ["tsplib"]
    assert told["example"]["tsplib"]
    assert told["description"]


def test_the_class_of_a_type_that_depends_on_params_is_not_guessed(api: InProcessApi) -> None:
    told = api.get("/types/numbers.sum_squares").json()
    assert {told[name] for name in ("cost_class", *LIMITS)} == {None}


def test_a_type_shows_the_limits_of_its_class_and_its_own_timeout(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = {name: api.get("/classes/heavy").json()[name] for name in LIMITS}
    usual = replace(registry._types[PROBE], cost_class="heavy")
    for job_type, limits in ((usual, heavy), (replace(usual, timeout_seconds=3.5), {**heavy, "timeout_seconds": 3.5})):
        monkeypatch.setattr(registry, "_types", {PROBE: job_type})
        told = api.get(f"/types/{PROBE}").json()
        assert {name: told[name] for name in LIMITS} == limits
    above = told["ceiling_seconds"] + 1
    problem(api.post(PROBE, {"seconds": 0}, timeout_seconds=above), 422, "limit_out_of_range")


@pytest.mark.parametrize("name", [name for name in registry.names() if not name.startswith("tests.")])
def test_every_example_is_accepted_as_it_stands(api: InProcessApi, name: str) -> None:
    """What of it names an upload is one of the caller's."""
    example = api.get(f"/types/{name}").json()["example"]
    for _, upload_id in found_in(registry._types[name].params.model_validate(example)):
        Upload.objects.create(pk=upload_id, client=api.client, size_bytes=0, stored_at=Now())
    assert api.post(name, example).status_code == 202


def test_healthz_asks_nobody() -> None:
    """This test may not touch the database: a query would be an error."""
    response = Web().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_readyz_is_ok_while_database_and_broker_are(api: InProcessApi) -> None:
    a_probe_node(processes=2)
    response = Web().get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "database": "ok",
        "broker": "ok",
        "classes": {
            "light": {"slots": 2, "consuming": True, "paused": False, "draining": False},
            "heavy": {"slots": 0, "consuming": False, "paused": False, "draining": False},
        },
    }


@pytest.fixture
def broker_away(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port that refuses, since nobody listens on it while it is ours."""
    monkeypatch.setattr(broker, "breaker", pybreaker.CircuitBreaker(fail_max=1, throw_new_error_on_trip=False))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings.WEIGHBRIDGE_REDIS_URL = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        yield


@pytest.mark.usefixtures("broker_away")
def test_readyz_is_degraded_and_still_ready_without_the_broker(api: InProcessApi) -> None:
    for _ in range(2):  # asked, and known without asking
        response = Web().get("/readyz")
        assert response.status_code == 200
        assert (response.json()["status"], response.json()["broker"]) == ("degraded", "away")


LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
ELSEWHERE = ["10.0.0.7", "128.0.0.1", "::2", "::ffff:10.0.0.7", "fe80::1", ""]


@pytest.mark.django_db
@pytest.mark.parametrize("address", LOOPBACK)
def test_metrics_are_open_on_loopback(address: str) -> None:
    response = Web(REMOTE_ADDR=address).get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain")


@pytest.mark.django_db
@pytest.mark.parametrize("address", ELSEWHERE)
def test_metrics_are_closed_to_elsewhere(address: str) -> None:
    problem(Web(REMOTE_ADDR=address).get("/metrics"), 403, "forbidden")


@pytest.mark.django_db
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_metrics_are_closed_to_what_a_local_proxy_forwards(header: str) -> None:
    problem(Web().get("/metrics", headers={header: "127.0.0.1"}), 403, "forbidden")


@pytest.mark.django_db
@pytest.mark.parametrize(("scopes", "status"), [((OPS_READ,), 200), ((READ, SUBMIT), 403)])
def test_metrics_are_open_from_anywhere_with_the_scope(scopes: tuple[str, ...], status: int) -> None:
    response = InProcessApi(*scopes).send("GET", "/metrics", REMOTE_ADDR="10.0.0.7")
    assert response.status_code == status


@pytest.mark.django_db
@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer nobody", "Basic YTpi"])
def test_metrics_are_closed_to_a_stranger(authorization: str) -> None:
    response = Web(REMOTE_ADDR="10.0.0.7").get("/metrics", headers={"Authorization": authorization})
    problem(response, 403, "forbidden")


def _metrics() -> dict[str, float]:
    """Sample → value."""
    lines = Web().get("/metrics").content.decode().splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


COUNTERS = [
    *(f'jobs_{n}_total{{cost_class="{c}"}}' for n in ("admitted", "replayed") for c in ("light", "heavy")),
    *(
        f'jobs_rejected_total{{cost_class="{c}",reason="{r}"}}'
        for c in ("light", "heavy")
        for r in ("queue_full", "type_unavailable", "unavailable", "idempotency_in_flight")
    ),
    *(
        f'jobs_finished_total{{cost_class="{c}",outcome="{o}"}}'
        for c in ("light", "heavy")
        for o in ("succeeded", "failed", "cancelled", "expired")
    ),
    *(f'http_refused_total{{status="{s}"}}' for s in (408, 413, 503)),
    "stale_settles_total",
    *(f'job_{h}_seconds_count{{cost_class="{c}"}}' for c in ("light", "heavy") for h in ("wait", "run")),
]


@pytest.mark.django_db
def test_every_counter_is_there_from_the_start() -> None:
    assert set(COUNTERS) - _metrics().keys() == set()


def test_counters_move_with_what_they_count(api: InProcessApi) -> None:
    before = _metrics()
    ids = [api.submit(params={"seconds": 0, "cost_class": "heavy"}) for _ in range(8)]
    api.post("probe.sleep", {"seconds": 0, "cost_class": "heavy"})
    api.cancel(ids[0])
    after = _metrics()
    moved = {name: after[name] - before[name] for name in COUNTERS if after[name] != before[name]}
    assert moved == {
        'jobs_admitted_total{cost_class="heavy"}': 8,
        'jobs_rejected_total{cost_class="heavy",reason="queue_full"}': 1,
        'jobs_finished_total{cost_class="heavy",outcome="cancelled"}': 1,
    }


def test_gauges_show_the_depth_of_each_class(api: InProcessApi) -> None:
    node = a_probe_node(processes=3)
    for _ in range(4):
        api.submit()
    claim_probe(node)
    shown = _metrics()
    label = '{cost_class="light"}'
    depth = {
        name: shown[name + label] for name in ("jobs_waiting", "jobs_running", "jobs_queue_capacity", "jobs_slots")
    }
    assert depth == {"jobs_waiting": 3, "jobs_running": 1, "jobs_queue_capacity": 103, "jobs_slots": 3}
    assert shown["jobs_oldest_waiting_seconds" + label] >= 0
    assert shown["jobs_backlog_seconds" + label] == 0, "nothing is known of what a probe takes"


HELD = [("type", "paused"), ("type", "refused"), ("client", "suspended")]


def test_a_gauge_shows_how_many_types_and_clients_are_held_back(api: InProcessApi) -> None:
    by = Operator("command", "me")
    changing.change_type("probe.sleep", {"paused": True, "refused": True}, by)
    changing.change_type("probe.spin", {"paused": True}, by)
    changing.change_client(api.client.name, {"suspended": True}, by)
    shown = _metrics()
    held = {how: shown[f'jobs_held_back{{how="{how}",kind="{kind}"}}'] for kind, how in HELD}
    assert held == {"paused": 2, "refused": 1, "suspended": 1}


def test_requests_are_counted_by_route_and_never_by_what_a_caller_invents(api: InProcessApi) -> None:
    job_id = api.submit()
    api.job(job_id)
    api.send("BREW", "/api/v1/jobs")
    api.send("GET", "/invented-by-a-caller")
    text = Web().get("/metrics").content.decode()
    assert 'http_request_seconds_count{method="GET",route="api/v1/jobs/<uuid:job_id>",status="200"}' in text
    assert not any(word in text for word in (job_id, "BREW", "invented-by-a-caller"))


def test_no_live_node_is_no_slot(api: InProcessApi) -> None:
    a_probe_node(processes=3)
    WorkerNode.objects.update(stopped_at="2020-01-01T00:00:00Z")
    assert api.get("/classes/light").json()["slots"] == 0
