"""GET /jobs: a client's own jobs, newest first, page by page; and what a query may not be."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from jobs import lifecycle, listing
from jobs.models import Job
from tests import job_rows
from tests.in_process_api import InProcessApi, problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def listed(api: InProcessApi, *query: tuple[str, object]) -> dict[str, Any]:
    response = api.get(f"/jobs?{urlencode(query)}")
    assert response.status_code == 200, response.content
    return dict(response.json())


def ids(page: dict[str, Any]) -> list[str]:
    return [job["id"] for job in page["jobs"]]


def all_pages(api: InProcessApi, *query: tuple[str, object]) -> list[str]:
    """By the links of the pages themselves."""
    page = listed(api, *query)
    found = ids(page)
    while page["links"]["next"]:
        page = api.get(page["links"]["next"].removeprefix("/api/v1")).json()
        found += ids(page)
    return found


def test_jobs_come_newest_first_and_without_params_and_result(api: InProcessApi) -> None:
    jobs = [api.submit() for _ in range(3)]
    page = listed(api)
    assert ids(page) == jobs[::-1]
    assert (page["next_cursor"], page["links"]) == (None, {"next": None})
    shown = api.job(jobs[0])
    assert page["jobs"][2] == {
        name: value for name, value in shown.items() if name not in {"result", "artifacts", "waiting"}
    }


def test_pages_hold_each_job_once_whatever_is_submitted_between_them(api: InProcessApi) -> None:
    jobs = [api.submit() for _ in range(7)]
    first = listed(api, ("page_size", 3))
    assert ids(first) == jobs[:3:-1]
    api.submit()
    second = listed(api, ("page_size", 3), ("cursor", first["next_cursor"]))
    assert ids(second) == jobs[3:0:-1]
    last = listed(api, ("page_size", 3), ("cursor", second["next_cursor"]))
    assert (ids(last), last["next_cursor"]) == ([jobs[0]], None)


def test_a_page_that_is_just_full_is_the_last(api: InProcessApi) -> None:
    for _ in range(3):
        api.submit()
    assert listed(api, ("page_size", 3))["next_cursor"] is None
    assert listed(api, ("page_size", 2))["next_cursor"] is not None


def test_nobody_sees_the_jobs_of_others(api: InProcessApi) -> None:
    other = InProcessApi()
    theirs, ours = [other.submit() for _ in range(3)], [api.submit() for _ in range(3)]
    cursor = listed(other, ("page_size", 1))["next_cursor"]
    assert all_pages(api) == ours[::-1]
    assert set(all_pages(api, ("cursor", cursor))).isdisjoint(theirs), "a cursor of another client is no way in"


def test_filters_narrow_and_go_on_through_the_pages(api: InProcessApi) -> None:
    light = [api.submit(labels={"team": "ops", "n": str(n)}) for n in range(3)]
    heavy = [api.submit(params={"seconds": 0, "cost_class": "heavy"}) for _ in range(2)]
    spin = api.submit("probe.spin", {"seconds": 0}, labels={"team": "web"})
    api.cancel(light[1])
    Job.objects.filter(pk=light[0]).update(accepted_at=Now() - timedelta(days=2))

    def found(*query: tuple[str, object]) -> set[str]:
        everything = all_pages(api, *query, ("page_size", 1))
        assert len(everything) == len(set(everything))
        return set(everything)

    assert found(("cost_class", "heavy")) == set(heavy)
    assert found(("type", "probe.spin")) == {spin}
    assert found(("state", "cancelled")) == {light[1]}
    assert found(("state", "cancelled"), ("state", "queued")) == {*light, *heavy, spin}
    assert found(("label", "team:ops")) == set(light)
    assert found(("label", "team:ops"), ("label", "n:2")) == {light[2]}
    assert found(("label", "team:ops"), ("state", "queued")) == {light[0], light[2]}
    assert found(("accepted_after", "2000-01-01T00:00:00Z")) == {*light, *heavy, spin}
    assert found(("accepted_after", "2000-01-01T00:00:00+23:59")) == {*light, *heavy, spin}
    since = Job.objects.get(pk=light[1]).accepted_at - timedelta(seconds=1)
    assert found(("accepted_after", since.isoformat())) == {*light[1:], *heavy, spin}
    assert found(("type", "no.such")) == found(("cost_class", "no such")) == set()


def test_a_value_of_a_label_may_hold_a_colon(api: InProcessApi) -> None:
    job_id = api.submit(labels={"at": "12:30"})
    assert all_pages(api, ("label", "at:12:30")) == [job_id]
    assert all_pages(api, ("label", "at:12")) == []


def test_a_filter_that_few_pass_makes_short_pages_that_go_on(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page looks at more than so many jobs; what lies further back comes with the next."""
    monkeypatch.setattr(listing, "LOOKED_AT", 4)
    rare = api.submit("probe.spin", {"seconds": 0})
    for _ in range(9):
        api.submit()
    first = listed(api, ("type", "probe.spin"))
    assert ids(first) == []
    assert first["next_cursor"] is not None
    assert all_pages(api, ("type", "probe.spin")) == [rare]
    assert len(all_pages(api, ("page_size", 3))) == 10, "without a filter nothing is cut"


def test_a_job_past_its_start_by_is_shown_expired(api: InProcessApi) -> None:
    job_id = api.submit()
    Job.objects.filter(pk=job_id).update(start_by=Now() - timedelta(seconds=1))
    assert ids(listed(api, ("state", "queued"))) == []
    assert [job["state"] for job in listed(api, ("state", "expired"))["jobs"]] == ["expired"]


@pytest.mark.parametrize(
    ("query", "loc"),
    [
        ("state=done", "state"),
        ("page_size=0", "page_size"),
        ("page_size=101", "page_size"),
        ("page_size=ten", "page_size"),
        ("page_size=5&page_size=6", "page_size"),
        ("type=a&type=b", "type"),
        ("label=team", "label"),
        ("label=:ops", "label"),
        ("label=a:1&label=a:2", "label"),
        ("type=", "type"),
        ("cost_class=", "cost_class"),
        ("accepted_after=yesterday", "accepted_after"),
        ("accepted_after=1700000000", "accepted_after"),
        ("accepted_after=2030-01-01T00:00:00", "accepted_after"),
        ("cursor=", "cursor"),
        ("cursor=abc", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=YmVmb3JlOi0x", "cursor"),  # before:-1
        ("cursor=YmVmb3JlOjk5OTk5OTk5OTk5OTk5OTk5OTk5", "cursor"),  # beyond a bigint
        ("sort=type", "sort"),
        ("type=%00", "type"),
        ("label=a:%00", "label"),
        ("cost_class=%00", "cost_class"),
    ],
)
def test_what_cannot_be_asked_is_said(api: InProcessApi, query: str, loc: str) -> None:
    errors = problem(api.get(f"/jobs?{query}"), 422, "invalid_request")["errors"]
    assert {error["loc"][0] for error in errors} == {loc}


def test_a_key_that_may_not_read_sees_no_list() -> None:
    problem(InProcessApi("jobs:submit").get("/jobs"), 403, "forbidden")


def test_a_page_costs_two_statements_and_one_more_with_a_filter(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        api.submit()
    key = 1
    expire = 1
    with django_assert_num_queries(key + expire + 1):
        listed(api)
    with django_assert_num_queries(key + expire + 2):
        listed(api, ("type", "probe.sleep"))


# ── The result alone ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_comes_alone_once_there_is_one(api: InProcessApi) -> None:
    node = job_rows.a_node(types=("probe.sleep",))
    job_id = api.submit()
    problem(api.get(f"/jobs/{job_id}/result"), 409, "not_finished", retryable=True)
    claimed = job_rows.claim(node, types=("probe.sleep",))
    assert claimed is not None
    problem(api.get(f"/jobs/{job_id}/result"), 409, "not_finished", retryable=True)
    job_rows.succeed(claimed, [1, {"two": "é"}])
    response = api.get(f"/jobs/{job_id}/result")
    assert (response.status_code, response.json()) == (200, [1, {"two": "é"}])


def test_a_result_that_is_null_is_json_too(api: InProcessApi) -> None:
    job = job_rows.a_finished_job(client=api.client, result=None)
    response = api.get(f"/jobs/{job.pk}/result")
    assert (response.status_code, response.content) == (200, b"null")
    assert response.headers["Content-Type"] == "application/json"


def test_a_job_that_did_not_succeed_has_no_result(api: InProcessApi) -> None:
    job_id = api.submit()
    lifecycle.cancel(job_id)  # type: ignore[arg-type]
    problem(api.get(f"/jobs/{job_id}/result"), 409, "no_result")


def test_a_result_past_its_retention_is_gone_while_its_job_is_shown(api: InProcessApi) -> None:
    job = job_rows.a_finished_job(client=api.client, result_expired=True)
    problem(api.get(f"/jobs/{job.pk}/result"), 410, "result_gone")
    assert api.job(str(job.pk))["result_expired"] is True


def test_a_result_is_its_clients_alone(api: InProcessApi) -> None:
    job = job_rows.a_finished_job(client=InProcessApi().client, result={"a": 1})
    problem(api.get(f"/jobs/{job.pk}/result"), 404, "not_found")


def test_more_parameters_than_anybody_sends_are_400(api: InProcessApi) -> None:
    many = "&".join(f"a{number}=1" for number in range(1001))
    problem(api.get(f"/jobs?{many}"), 400, "bad_request")
