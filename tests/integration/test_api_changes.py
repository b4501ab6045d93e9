"""GET /jobs/changes: a client's jobs in the order in which they ended, each once, however ends and reads interleave."""

import threading
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries

from jobs import lifecycle, listing
from jobs.models import Job
from tests import job_rows
from tests.in_process_api import InProcessApi, problem
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _changes(api: InProcessApi, cursor: str | None = None, size: int = 50) -> tuple[list[str], str | None]:
    query = f"?page_size={size}" + (f"&cursor={cursor}" if cursor else "")
    told: dict[str, Any] = api.get(f"/jobs/changes{query}").json()
    return [job["id"] for job in told["jobs"]], told["next_cursor"]


def test_ends_come_oldest_first_and_each_once(api: InProcessApi) -> None:
    jobs = [api.submit() for _ in range(5)]
    assert _changes(api) == ([], None), "nothing has ended"
    for number in (3, 0, 4):
        lifecycle.cancel(api.client.jobs.get(pk=jobs[number]).pk)
    first, cursor = _changes(api, size=2)
    assert first == [jobs[3], jobs[0]]
    second, cursor = _changes(api, cursor, size=2)
    assert second == [jobs[4]]
    assert _changes(api, cursor) == ([], cursor), "there is always a cursor to come back with"
    lifecycle.cancel(api.client.jobs.get(pk=jobs[1]).pk)
    assert _changes(api, cursor)[0] == [jobs[1]]


def test_the_links_lead_on(api: InProcessApi) -> None:
    job_id = api.submit()
    page = api.get("/jobs/changes?page_size=7").json()
    assert page["links"]["next"] == "/api/v1/jobs/changes"
    lifecycle.cancel(api.client.jobs.get(pk=job_id).pk)
    page = api.get("/jobs/changes?page_size=7").json()
    following = api.get(page["links"]["next"].removeprefix("/api/v1")).json()
    assert (following["jobs"], following["next_cursor"]) == ([], page["next_cursor"])
    assert "page_size=7" in page["links"]["next"]


def test_ends_of_one_instant_are_told_apart(api: InProcessApi) -> None:
    jobs = [api.submit() for _ in range(4)]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_job SET state = 'cancelled', finished_at = '2026-01-01T00:00:00.123456Z'")
    found, mark = [], None
    for _ in range(4):
        page, mark = _changes(api, mark, size=1)
        found += page
    assert found == jobs
    assert _changes(api, mark)[0] == []


def test_an_end_that_is_stamped_but_not_committed_is_not_passed_over(api: InProcessApi, other: Elsewhere) -> None:
    """The one that is committed first was stamped later."""
    slow, quick = (api.client.jobs.get(pk=api.submit()).pk for _ in range(2))
    stamped, go_on = threading.Event(), threading.Event()

    def end_slowly() -> None:
        with transaction.atomic():
            lifecycle.cancel(slow)
            stamped.set()
            go_on.wait(30)

    ending = other.start(end_slowly)
    assert stamped.wait(10)
    lifecycle.cancel(quick)
    assert _changes(api) == ([], None)
    go_on.set()
    ending.result(10)
    assert _changes(api)[0] == [str(slow), str(quick)]


def test_a_transaction_that_stays_open_holds_nobody_up_for_long(
    api: InProcessApi, other: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "OPEN_SECONDS", 0.0)
    job_id = api.client.jobs.get(pk=api.submit()).pk
    began, go_on = threading.Event(), threading.Event()

    def stay_open() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().filter(pk=job_rows.a_queued_job("heavy").pk).first()
            began.set()
            go_on.wait(30)

    open_one = other.start(stay_open)
    assert began.wait(10)
    lifecycle.cancel(job_id)
    assert _changes(api)[0] == [str(job_id)]
    go_on.set()
    open_one.result(10)


def test_a_client_sees_its_own_ends_alone(api: InProcessApi) -> None:
    lifecycle.cancel(InProcessApi().client.jobs.model.objects.get(pk=InProcessApi().submit()).pk)
    assert _changes(api) == ([], None)


def test_what_should_have_expired_has(api: InProcessApi) -> None:
    job_id = api.submit()
    Job.objects.update(start_by=job_rows.later(-1))
    [job] = api.get("/jobs/changes").json()["jobs"]
    assert (job["id"], job["state"]) == (job_id, "expired")
    assert "result" not in job


@pytest.mark.parametrize("query", ["cursor=x", "cursor=YmVmb3JlOjE=", "page_size=0", "page_size=101", "state=failed"])
def test_what_cannot_be_asked_is_refused(api: InProcessApi, query: str) -> None:
    assert problem(api.get(f"/jobs/changes?{query}"), 422, "invalid_request")["errors"]


def test_a_page_costs_as_much_however_many_there_are(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        lifecycle.cancel(api.client.jobs.get(pk=api.submit()).pk)
    with django_assert_num_queries(4):  # the key, what has expired, the horizon, the page
        _changes(api)
