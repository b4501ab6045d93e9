"""Keys and scopes (P39), what is whose, methods and addresses, and the id that every answer carries."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from jobs import keys
from jobs.api.auth import BearerKey, HasScope
from jobs.api.view import View
from jobs.keys import ALL_SCOPES, CANCEL, OPS_READ, OPS_WRITE, READ, SUBMIT, TO_LOOK
from jobs.models import ApiKey, Job
from tests.in_process_api import BASE, InProcessApi, Web, problem

pytestmark = pytest.mark.django_db

NOBODYS_JOB = "0193e3a0-0000-7000-8000-000000000000"


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nobody",
        "Basic YTpi",
        "nobody",
        "Bearer \u00e9\u00ff",
        "Bearer " + "x" * 5000,
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/jobs"), ("GET", f"/jobs/{NOBODYS_JOB}"), ("GET", "/types")])
def test_without_a_known_key_nobody_gets_in(
    api: InProcessApi, authorization: str | None, method: str, path: str
) -> None:
    headers = {"Authorization": authorization} if authorization is not None else {"Authorization": ""}
    response = api.send(method, BASE + path, b"{}", headers=headers)
    problem(response, 401, "unauthorized")
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_spelt_either_way(api: InProcessApi, scheme: str) -> None:
    assert api.get("/classes", headers={"Authorization": f"{scheme} {api.key}"}).status_code == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 200),
        ({"expires_at": Now() + timedelta(minutes=1)}, 200),
        ({"expires_at": Now() - timedelta(seconds=1)}, 401),
        ({"revoked_at": Now()}, 401),
        ({"revoked_at": Now(), "expires_at": Now() + timedelta(minutes=1)}, 401),
    ],
)
def test_a_key_works_until_it_expires_or_is_revoked(api: InProcessApi, change: dict[str, Any], status: int) -> None:
    assert api.get("/classes").status_code == 200
    if change:
        ApiKey.objects.update(**change)
    assert api.get("/classes").status_code == status


def test_a_key_is_kept_as_its_digest_only(api: InProcessApi) -> None:
    row = ApiKey.objects.values().get()
    assert not any(api.key in str(value) for value in row.values())
    assert row["digest"] == keys.digest(api.key)
    assert api.key.startswith(row["hint"])
    assert len(row["hint"]) <= 8  # of 46; the rest still holds some 210 random bits


NEEDED = [
    ("POST", "/jobs", SUBMIT),
    ("GET", f"/jobs/{NOBODYS_JOB}", READ),
    ("HEAD", f"/jobs/{NOBODYS_JOB}", READ),
    ("DELETE", f"/jobs/{NOBODYS_JOB}", CANCEL),
    ("POST", "/batches", SUBMIT),
    ("GET", f"/batches/{NOBODYS_JOB}", READ),
    ("DELETE", f"/batches/{NOBODYS_JOB}", CANCEL),
    ("PATCH", "/classes/light", OPS_WRITE),
    ("PATCH", "/types/probe.sleep", OPS_WRITE),
    ("PATCH", "/clients/nobody", OPS_WRITE),
    ("GET", "/controls", OPS_READ),
]


@pytest.mark.parametrize(("method", "path", "scope"), NEEDED)
def test_all_other_scopes_do_not_make_up_for_the_needed_one(method: str, path: str, scope: str) -> None:
    response = InProcessApi(*(set(ALL_SCOPES) - {scope})).send(method, BASE + path, b"{}")
    assert response.status_code == 403
    if method != "HEAD":
        problem(response, 403, "forbidden")
        assert scope in response.json()["detail"]


@pytest.mark.parametrize(("method", "path", "scope"), NEEDED)
def test_the_needed_scope_is_enough(method: str, path: str, scope: str) -> None:
    response = InProcessApi(scope).send(method, BASE + path, b"{}")
    assert response.status_code in {200, 404, 422}, response.content


@pytest.mark.parametrize("path", ["/classes", "/classes/light", "/types", "/types/probe.sleep", "/client"])
@pytest.mark.parametrize("scope", ALL_SCOPES)
def test_who_may_read_jobs_and_who_may_read_of_operations_may_look_at_what_is_nobodys_own(
    path: str, scope: str
) -> None:
    response = InProcessApi(scope).get(path)
    if scope in TO_LOOK:
        assert response.status_code == 200
    else:
        problem(response, 403, "forbidden")
        assert "jobs:read or ops:read" in response.json()["detail"]


def test_another_clients_job_is_answered_as_one_that_never_was(api: InProcessApi) -> None:
    stranger = InProcessApi()
    job_id = api.submit()
    for method in ("GET", "DELETE"):
        others, nobodys = (stranger.send(method, f"{BASE}/jobs/{i}") for i in (job_id, NOBODYS_JOB))
        problem(others, 404, "not_found")
        assert others.content == nobodys.content
        assert _headers(others) == _headers(nobodys)
    assert api.job(job_id)["state"] == "queued"


def _headers(response: Any) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name != "X-Request-Id"}


def test_an_overdue_job_of_another_client_is_not_touched(api: InProcessApi) -> None:
    job_id = api.submit()
    Job.objects.update(start_by=Now() - timedelta(seconds=1))
    assert InProcessApi().get(f"/jobs/{job_id}").status_code == 404
    assert Job.objects.get().state == "queued"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/jobs", {"GET", "POST"}),
        ("DELETE", "/jobs", {"GET", "POST"}),
        ("PATCH", "/jobs", {"GET", "POST"}),
        ("POST", f"/jobs/{NOBODYS_JOB}/result", {"GET"}),
        ("POST", f"/jobs/{NOBODYS_JOB}", {"GET", "DELETE"}),
        ("PATCH", f"/jobs/{NOBODYS_JOB}", {"GET", "DELETE"}),
        ("POST", "/classes", {"GET"}),
        ("PUT", "/classes/light", {"GET", "PATCH"}),
        ("GET", "/clients/shop", {"PATCH"}),
        ("PATCH", "/controls", {"GET"}),
        ("GET", "/batches", {"POST"}),
        ("POST", f"/batches/{NOBODYS_JOB}", {"GET", "DELETE"}),
        ("POST", "/types", {"GET"}),
        ("OPTIONS", "/jobs", {"GET", "POST"}),
        ("BREW", "/jobs", {"GET", "POST"}),
    ],
)
def test_another_method_is_405_and_told_which_there_are(
    api: InProcessApi, method: str, path: str, allowed: set[str]
) -> None:
    response = api.send(method, BASE + path, b"{}")
    problem(response, 405, "method_not_allowed")
    assert allowed <= set(response.headers["Allow"].split(", "))
    assert all(word in response.json()["detail"].partition(", not ")[0] for word in allowed)
    assert method not in response.headers["Allow"].split(", ") or method == "OPTIONS"


def test_allow_names_no_method_that_is_refused(api: InProcessApi) -> None:
    assert "OPTIONS" not in api.send("OPTIONS", f"{BASE}/jobs").headers["Allow"]


ABSENT = [
    "/api/v1/jobs/",
    f"/api/v1/jobs/{NOBODYS_JOB}/events",
    "/api/v1/jobs/7",
    "/api/v1/batches/7",
    f"/api/v1/batches/{NOBODYS_JOB}",
    "/api/v1/types/no.such_type",
    "/api/v1/classes/no_such_class",
    "/api/v1/classes/light%00",
    "/api/v1",
    "/api/v2/jobs",
    "/nowhere",
]


@pytest.mark.parametrize("address", ABSENT)
def test_where_nothing_is_the_answer_is_404(api: InProcessApi, address: str) -> None:
    problem(api.send("GET", address), 404, "not_found")


@pytest.mark.parametrize("address", ["/api/v1/jobs/7", "/api/v1/jobs/7/result", f"/api/v1/jobs/{NOBODYS_JOB}"])
def test_an_id_of_no_job_is_told_as_such(api: InProcessApi, address: str) -> None:
    assert api.send("GET", address).json()["detail"].startswith("There is no job of that id")


@pytest.mark.parametrize("given", ["a", "A-Z_0.9", "x" * 128])
@pytest.mark.parametrize("address", ["/healthz", f"{BASE}/classes", "/nowhere"])
def test_a_well_formed_request_id_comes_back(api: InProcessApi, given: str, address: str) -> None:
    assert api.send("GET", address, headers={"X-Request-Id": given}).headers["X-Request-Id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "a/b", "{}", "é", "a,b", "a\tb"])
@pytest.mark.parametrize("address", ["/healthz", f"{BASE}/classes", "/nowhere"])
def test_any_other_request_id_is_replaced(api: InProcessApi, given: str, address: str) -> None:
    made = [api.send("GET", address, headers={"X-Request-Id": given}).headers["X-Request-Id"] for _ in range(2)]
    assert given not in made
    assert made[0] != made[1]
    assert all(len(one) == 32 for one in made)


def test_a_refusal_made_before_any_view_carries_the_id_too(api: InProcessApi) -> None:
    response = api.raw(b"{}", headers={"Host": "elsewhere.example", "X-Request-Id": "mine"})
    problem(response, 400, "bad_request")
    assert response.headers["X-Request-Id"] == "mine"


@pytest.mark.parametrize("address", ["/healthz", "/readyz", "/metrics"])
def test_what_is_only_read_says_so(address: str) -> None:
    response = Web(enforce_csrf_checks=True).post(address)
    problem(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
@pytest.mark.parametrize("address", ["/api/v1/jobs/7", "/api/v1/nowhere", "/nowhere"])
def test_where_nothing_is_no_method_is_the_wrong_one(method: str, address: str) -> None:
    problem(Web(enforce_csrf_checks=True).generic(method, address), 404, "not_found")


def test_a_host_that_is_not_ours_is_400(api: InProcessApi) -> None:
    problem(api.send("GET", f"{BASE}/classes", headers={"Host": "elsewhere.example"}), 400, "bad_request")


def test_what_a_caller_must_be_is_said_by_the_views_and_not_by_a_teams_settings() -> None:
    """REST_FRAMEWORK is theirs, for views of their own; these names are read when a view's class is made."""
    ours = vars(View)
    assert ours["authentication_classes"] == (BearerKey,)
    assert ours["permission_classes"] == (HasScope,)
