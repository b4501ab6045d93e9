"""Pages of other origins: none may call the API unless an operator names it, and then they may read what they need."""

from typing import Any

import pytest

from tests.in_process_api import BASE, InProcessApi

pytestmark = pytest.mark.django_db

ORIGIN = "https://app.example.org"
PREFLIGHT = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def test_without_an_allowed_origin_no_page_may(api: InProcessApi) -> None:
    answer = api.get("/classes", headers={"Origin": ORIGIN})
    assert not {name for name in answer.headers if name.startswith("Access-Control")}


def test_a_page_of_an_allowed_origin_may_and_reads_what_it_needs(api: InProcessApi, settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    asked = "authorization, idempotency-key, prefer"
    may = api.send("OPTIONS", f"{BASE}/jobs", headers={**PREFLIGHT, "Access-Control-Request-Headers": asked})
    assert (may.status_code, may.headers["Access-Control-Allow-Origin"]) == (200, ORIGIN)
    assert set(asked.split(", ")) <= set(may.headers["Access-Control-Allow-Headers"].split(", "))
    answer = api.get("/classes", headers={"Origin": ORIGIN})
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    exposed = set(answer.headers["Access-Control-Expose-Headers"].split(", "))
    assert {"Retry-After", "Location", "X-Request-Id"} <= exposed
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize("path", ["/admin/login/", "/metrics", "/healthz"])
def test_what_is_no_api_is_for_no_page(api: InProcessApi, settings: Any, path: str) -> None:
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    answer = api.send("GET", path, headers={"Origin": ORIGIN})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_another_origin_is_not_that_one(api: InProcessApi, settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    answer = api.get("/classes", headers={"Origin": "https://app.example.org.evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers
