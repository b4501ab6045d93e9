"""A server that has read nothing of a body asks first whether its caller may send it: that is answered before anything is done."""

from typing import Any

import pytest
from django.test import Client

from jobs.api.requests import ARRIVED
from jobs.keys import READ
from jobs.models import Job
from tests.in_process_api import BASE, InProcessApi

pytestmark = pytest.mark.django_db

ADDRESSES = [
    ("POST", "/jobs"),
    ("POST", "/batches"),
    ("DELETE", "/jobs/{job}"),
    ("GET", "/jobs/{job}"),
    ("GET", "/client"),
]


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def asked(key: str | None, method: str, path: str, body: bytes = b"") -> Any:
    """Not by the tests' own caller: no answer of this kind is ever sent, nor published."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    web = Client(raise_request_exception=False)
    environ: dict[str, Any] = {ARRIVED: None}
    return web.generic(method, f"{BASE}{path}", body, "application/json", headers=headers, **environ)


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
def test_who_may_send_is_told_so_and_nothing_is_done_yet(api: InProcessApi, method: str, path: str) -> None:
    job = api.submit()
    answer = asked(api.key, method, path.format(job=job))
    assert (answer.status_code, answer.content, answer.owner) == (100, b"", api.client.pk)
    assert [(str(row.pk), row.state) for row in Job.objects.all()] == [(job, "queued")]


@pytest.mark.parametrize(("method", "path"), ADDRESSES)
@pytest.mark.parametrize("key", [None, "made-up"])
def test_a_stranger_is_told_what_it_would_be_told_with_its_body(key: str | None, method: str, path: str) -> None:
    answer = asked(key, method, path.format(job="0193e0a5-0000-7000-8000-000000000000"))
    assert (answer.status_code, answer.json()["code"], answer.owner) == (401, "unauthorized", None)


def test_who_lacks_the_scope_is_told_so_before_it_sends() -> None:
    reader = InProcessApi(READ)
    answer = asked(reader.key, "POST", "/jobs")
    assert (answer.status_code, answer.owner) == (403, reader.client.pk)


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/nowhere", 404), ("POST", "/classes", 405)])
def test_what_no_body_can_change_is_said_at_once(api: InProcessApi, method: str, path: str, status: int) -> None:
    assert asked(api.key, method, path).status_code == status


def test_every_answer_to_a_key_that_is_good_says_whose_it_is(api: InProcessApi) -> None:
    job = api.submit()
    answers = [api.get(f"/jobs/{job}"), api.raw(b"{"), api.get("/jobs/0193e0a5-0000-7000-8000-000000000000")]
    assert [(answer.status_code, answer.owner) for answer in answers] == [
        (200, api.client.pk),
        (400, api.client.pk),
        (404, api.client.pk),
    ]


def test_an_answer_of_the_admin_says_who_is_logged_in(admin_client: Client, admin_user: Any) -> None:
    assert admin_client.get("/admin/").owner == ("person", admin_user.pk)  # type: ignore[attr-defined]
    assert not hasattr(Client().get("/admin/login/"), "owner")
