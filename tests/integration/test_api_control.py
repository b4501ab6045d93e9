"""Operators stop and resume work over HTTP, with the scope `ops:write`, and see what they changed; callers are told what an operator holds (P7)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jobs.keys import OPS_WRITE, READ, SUBMIT
from jobs.models import ClassControl, ControlChange, Job, TypeControl
from tests import batch_calls
from tests.in_process_api import BASE, PROBE, InProcessApi, Web, a_probe_node, claim_probe, problem
from tests.job_rows import claim
from tests.operators import change
from tests.second_connections import Elsewhere, class_locked

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi(SUBMIT, READ, "jobs:cancel")


@pytest.fixture
def ops() -> InProcessApi:
    return InProcessApi(OPS_WRITE, READ, "ops:read")


@pytest.fixture
def patch(ops: InProcessApi) -> Callable[..., Any]:
    return lambda path, **said: _patch(ops, path, said)


def _patch(ops: InProcessApi, path: str, said: Any) -> Any:
    return ops.send("PATCH", f"{BASE}/{path}", json.dumps(said).encode())


# ── Classes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_paused_class_takes_jobs_and_starts_none_until_it_is_resumed(api: InProcessApi, patch: Any) -> None:
    node = a_probe_node()
    answer = patch("classes/light", paused=True, why="the licence server is down")
    assert answer.status_code == 200
    assert (answer.json()["paused"], answer.json()["accepting"]) == (True, True)
    accepted = api.post(PROBE, {"seconds": 0})
    assert accepted.status_code == 202
    for waiting in (accepted.json()["waiting"], api.job(accepted.json()["id"])["waiting"]):
        assert waiting == {
            "position": 1,
            "estimated_start_at": None,
            "estimated_start_p95_at": None,
            "held_by": "paused",
        }
    assert claim(node, "light", (PROBE,)) is None
    assert patch("classes/light", paused=False).json()["paused"] is False
    assert str(claim_probe(node).job_id) == accepted.json()["id"]


def test_who_finds_a_paused_class_full_is_not_told_a_drain_that_there_is_not(api: InProcessApi, patch: Any) -> None:
    a_probe_node(processes=1)
    patch("classes/light", paused=True, max_waiting=0)
    api.submit()
    refused = api.post(PROBE, {"seconds": 0})
    assert problem(refused, 503, "queue_full", retryable=True)["retry_after_seconds"] == 30
    assert api.get("/classes/light").json()["retry_after_seconds"] == 30


def test_a_draining_class_takes_no_more_and_works_off_what_it_has(api: InProcessApi, patch: Any) -> None:
    node = a_probe_node()
    job_id = api.submit()
    answer = patch("classes/light", draining=True).json()
    assert (answer["draining"], answer["accepting"], answer["retry_after_seconds"]) == (True, False, 30)
    refused = api.post(PROBE, {"seconds": 0})
    assert problem(refused, 503, "class_draining", retryable=True) == {
        "cost_class": "light",
        "retry_after_seconds": 30,
    }
    assert refused.headers["Retry-After"] == "30"
    assert Job.objects.count() == 1
    assert str(claim_probe(node).job_id) == job_id
    assert api.get("/classes/light").json()["accepting"] is False
    assert api.post(PROBE, {"seconds": 0, "cost_class": "heavy"}).status_code == 202
    patch("classes/light", draining=False)
    assert api.post(PROBE, {"seconds": 0}).status_code == 202


def test_limits_are_overridden_and_taken_back(api: InProcessApi, patch: Any) -> None:
    overridden = patch(
        "classes/heavy", max_waiting=1, max_backlog_seconds=7.5, max_wait_seconds=9, timeout_seconds=33
    ).json()
    assert (overridden["max_waiting"], overridden["max_backlog_seconds"]) == (1, 7.5)
    row = ClassControl.objects.get(pk="heavy")
    assert (row.max_waiting, row.max_backlog_seconds, row.max_wait_seconds, row.timeout_seconds) == (1, 7.5, 9.0, 33.0)
    assert (overridden["max_wait_seconds"], overridden["timeout_seconds"]) == (9, 33)
    assert api.get("/types/routes.optimize").json()["max_wait_seconds"] == 9
    patch("classes/heavy", max_waiting=2, max_backlog_seconds=None, max_wait_seconds=None)
    row.refresh_from_db()
    assert (row.max_waiting, row.max_backlog_seconds, row.max_wait_seconds, row.timeout_seconds) == (
        2,
        None,
        None,
        33.0,
    )
    assert patch("classes/heavy", max_waiting=None).json()["max_waiting"] == 8


def test_what_cannot_be_changed_is_answered_with_what_can(patch: Any) -> None:
    answer = patch("types/probe.sleep", draining=True)
    problem(answer, 422, "invalid_request")
    assert answer.json()["detail"] == "This is nothing that can be changed of a type; there are: why, paused, refused."


@pytest.mark.parametrize(
    ("said", "place", "sentence"),
    [
        ({"max_waiting": 10_001}, "max_waiting", "max_waiting of class light is 10001, but must be a whole number from 0 to 10000."),
        ({"max_waiting": -1}, "max_waiting", "max_waiting of class light is -1, but must be a whole number from 0 to 10000."),
        ({"max_wait_seconds": 0}, "max_wait_seconds", "max_wait_seconds of class light is 0.0, but must be a number of seconds from 0.1 to 86400."),
        ({"timeout_seconds": 31}, "timeout_seconds", "timeout_seconds of class light is 31.0, but must be at most the class's ceiling_seconds, 30."),
    ],
)  # fmt: skip
def test_a_limit_out_of_its_range_changes_nothing(patch: Any, said: Any, place: str, sentence: str) -> None:
    answer = patch("classes/light", paused=True, **said)
    assert problem(answer, 422, "limit_out_of_range") == {"errors": [{"loc": [place], "msg": sentence}]}
    assert answer.json()["detail"] == sentence
    assert not ClassControl.objects.exists()
    assert not ControlChange.objects.exists()


@pytest.mark.parametrize(
    ("path", "said", "loc"),
    [
        ("classes/light", {"pause": True}, ["pause"]),
        ("classes/light", {"processes": 4}, ["processes"]),
        ("classes/light", {"paused": "yes"}, ["paused"]),
        ("classes/light", {"paused": None}, ["paused"]),
        ("classes/light", {"max_waiting": "20"}, ["max_waiting"]),
        ("classes/light", {"max_waiting": 1.5}, ["max_waiting"]),
        ("classes/light", {"max_waiting": True}, ["max_waiting"]),
        ("classes/light", {"why": "x" * 201}, ["why"]),
        ("classes/light", [], []),
        (f"types/{PROBE}", {"draining": True}, ["draining"]),
        (f"types/{PROBE}", {"refused": 1}, ["refused"]),
        ("clients/nobody", {"paused": True}, ["paused"]),
    ],
)
def test_what_is_no_change_is_refused_and_changes_nothing(
    ops: InProcessApi, path: str, said: Any, loc: list[str]
) -> None:
    errors = problem(_patch(ops, path, said), 422, "invalid_request")["errors"]
    assert [one["loc"] for one in errors] == [loc]
    assert not ClassControl.objects.exists()
    assert not TypeControl.objects.exists()
    assert not ControlChange.objects.exists()


@pytest.mark.parametrize("path", ["classes/none", "types/none.such", "clients/nobody", "clients/%00", "types/%00"])
def test_what_is_not_there_is_404(patch: Any, path: str) -> None:
    problem(patch(path, **({"suspended": True} if "clients" in path else {"paused": True})), 404, "not_found")
    assert not ControlChange.objects.exists()


@pytest.mark.parametrize("path", ["classes/light", f"types/{PROBE}", "clients/nobody"])
def test_a_body_that_is_none_is_400(ops: InProcessApi, path: str) -> None:
    for body in (b"", b"{", b'{"why": "\\u0000"}'):
        problem(ops.send("PATCH", f"{BASE}/{path}", body), 400, "bad_request")


@two_connections
def test_a_class_that_is_at_its_admissions_is_busy_and_nothing_is_changed(patch: Any, other: Elsewhere) -> None:
    with class_locked("light", other):
        problem(patch("classes/light", paused=True), 503, "unavailable", retryable=True)
    assert not ClassControl.objects.filter(paused_at__isnull=False).exists()
    assert patch("classes/light", paused=True).status_code == 200


# ── Types ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_type_is_paused_and_refused_in_all_classes(api: InProcessApi, patch: Any) -> None:
    node = a_probe_node()
    job_id = api.submit()
    assert patch(f"types/{PROBE}", paused=True).json() == {"name": PROBE, "paused": True, "refused": False}
    assert claim(node, "light", (PROBE,)) is None
    assert api.job(job_id)["waiting"]["held_by"] == "paused"
    assert patch(f"types/{PROBE}", refused=True).json() == {"name": PROBE, "paused": True, "refused": True}
    for cost_class in ("light", "heavy"):
        told = problem(api.post(PROBE, {"seconds": 0, "cost_class": cost_class}), 503, "type_refused", retryable=True)
        assert told == {"cost_class": cost_class, "retry_after_seconds": 30}
    assert patch(f"types/{PROBE}", paused=False, refused=False).json()["refused"] is False
    api.submit()
    assert str(claim_probe(node).job_id) == job_id


# ── Clients ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_suspended_client_reads_and_cancels_and_submits_nothing(api: InProcessApi, patch: Any) -> None:
    node = a_probe_node()
    running, waiting = api.submit(), api.submit()
    claim_probe(node)
    path = f"clients/{api.client.name}"
    assert patch(path, suspended=True).json() == {"name": api.client.name, "suspended": True}
    assert problem(api.post(PROBE, {"seconds": 0}), 403, "client_suspended") == {}
    assert problem(batch_calls.post(api, {"a": batch_calls.a_probe()}), 403, "client_suspended") == {}
    problem(api.send("POST", f"{BASE}/uploads", b"bytes", "text/plain"), 403, "client_suspended")
    assert claim(node, "light", (PROBE,)) is None
    assert api.get("/client").json()["suspended"] is True
    assert api.job(running)["state"] == "running"
    assert api.job(waiting)["waiting"]["held_by"] == "paused"
    assert api.cancel(waiting).json()["state"] == "cancelled"
    assert InProcessApi().submit(), "others go on"
    patch(path, suspended=False)
    assert api.submit()


@pytest.mark.parametrize("kind", ["class", "type"])
def test_an_item_that_is_refused_says_by_whom(api: InProcessApi, kind: str) -> None:
    name, switch, code = {"class": ("light", "draining", "class_draining"), "type": (PROBE, "refused", "type_refused")}[kind]  # fmt: skip
    change(kind, name, **{switch: True})
    answer = batch_calls.post(api, {"a": batch_calls.a_probe()}, atomic=False)
    told = problem(answer, 503, code, retryable=True)
    assert told["results"]["a"]["error"]["code"] == code
    assert "operator" in told["results"]["a"]["error"]["message"]
    whole = batch_calls.post(api, {"a": batch_calls.a_probe()})
    assert problem(whole, 503, code, retryable=True)["errors"][0]["loc"] == ["jobs", "a"]


# ── Seeing it ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_operators_changed_is_told_with_its_source_and_who_set_it(ops: InProcessApi, patch: Any) -> None:
    patch("classes/heavy", max_waiting=20, paused=True, why="the night's reports")
    patch("classes/heavy", paused=False)
    patch(f"types/{PROBE}", refused=True)
    patch(f"clients/{ops.client.name}", suspended=True)
    told = {
        (one["kind"], one["name"]): {s.pop("field"): s for s in one["settings"]}
        for one in ops.get("/controls").json()["controls"]
    }
    by = f"{ops.client.name} (API)"
    heavy = told["class", "heavy"]
    assert heavy["max_waiting"].pop("changed_at") is not None
    assert heavy["max_waiting"] == {
        "value": 20, "declared": 8, "source": "operator", "changed_by": by, "why": "the night's reports"
    }  # fmt: skip
    assert (heavy["paused"]["value"], heavy["paused"]["source"], heavy["paused"]["changed_by"]) == (
        False,
        "default",
        by,
    )
    assert (heavy["timeout_seconds"]["value"], heavy["timeout_seconds"]["changed_by"]) == (120, None)
    assert told["type", PROBE]["refused"]["value"] is True
    assert told["client", ops.client.name]["suspended"]["value"] is True
    assert told["class", "light"]["paused"]["changed_at"] is None


def test_monitoring_sees_what_is_paused_and_drains(patch: Any) -> None:
    change("class", "light", paused=True)
    change("class", "heavy", draining=True)
    ready = Web().get("/readyz")
    assert ready.status_code == 200
    classes = ready.json()["classes"]
    assert [(classes[name]["paused"], classes[name]["draining"]) for name in ("light", "heavy")] == [
        (True, False),
        (False, True),
    ]
    text = Web().get("/metrics").content.decode()
    for name, light, heavy in (("paused", 1.0, 0.0), ("draining", 0.0, 1.0)):
        assert f'jobs_class_{name}{{cost_class="light"}} {light}' in text
        assert f'jobs_class_{name}{{cost_class="heavy"}} {heavy}' in text
    assert 'jobs_rejected_total{cost_class="light",reason="class_draining"}' in text
