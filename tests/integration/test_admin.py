"""Operators see jobs and cancel them, one or many; nobody changes a job by hand."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from jobs.models import ApiClient, Attempt, Job

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/job/"


@pytest.fixture
def operator() -> Iterator[Client]:
    get_user_model().objects.create_superuser("operator", password="a long password")
    browser = Client()
    assert browser.login(username="operator", password="a long password")
    yield browser


@pytest.fixture
def jobs() -> list[Job]:
    client = ApiClient.objects.create(name="a")
    return [
        Job.objects.create(
            client=client,
            type="probe.sleep",
            cost_class="light",
            params={"secret": "xyzzy"},
            admitted_bound=9,
            timeout_seconds=1,
        )
        for _ in range(3)
    ]


def _states() -> list[str]:
    return sorted(Job.objects.values_list("state", flat=True))


def test_the_list_and_the_page_show_jobs_but_never_params(operator: Client, jobs: list[Job]) -> None:
    for address in (LIST, f"{LIST}{jobs[0].pk}/change/"):
        page = operator.get(address)
        assert page.status_code == 200
        assert str(jobs[0].pk) in page.content.decode()
        assert "xyzzy" not in page.content.decode()


def test_instants_are_shown_to_the_second(operator: Client, jobs: list[Job]) -> None:
    page = operator.get(f"{LIST}{jobs[0].pk}/change/").content.decode()
    jobs[0].refresh_from_db()
    assert f"{jobs[0].accepted_at:%Y-%m-%d %H:%M:%S}" in page


def test_one_is_cancelled_by_the_button_of_its_row(operator: Client, jobs: list[Job]) -> None:
    address = f"{LIST}{jobs[0].pk}/cancel/"
    assert f'formaction="{address}"' in operator.get(LIST).content.decode()
    operator.post(address)
    assert _states() == ["cancelled", "queued", "queued"]
    told = LogEntry.objects.get()
    assert (told.user.get_username(), told.object_id, told.change_message) == (
        "operator",
        str(jobs[0].pk),
        "Cancelled, or asked to end.",
    )


def test_many_are_cancelled_at_once(operator: Client, jobs: list[Job]) -> None:
    chosen = [str(job.pk) for job in jobs[:2]]
    answer = operator.post(LIST, {"action": "cancel_selected", "_selected_action": chosen}, follow=True)
    assert "asked to end: 2" in answer.content.decode()
    assert _states() == ["cancelled", "cancelled", "queued"]


def test_what_has_ended_stays_as_it_is_and_says_so(operator: Client, jobs: list[Job]) -> None:
    operator.post(f"{LIST}{jobs[0].pk}/cancel/")
    answer = operator.post(f"{LIST}{jobs[0].pk}/cancel/", follow=True)
    assert "already ended: 1" in answer.content.decode()


def test_a_cancel_is_a_post(operator: Client, jobs: list[Job]) -> None:
    assert operator.get(f"{LIST}{jobs[0].pk}/cancel/").status_code == 405
    assert _states() == ["queued"] * 3


def test_who_may_only_look_cannot_cancel(jobs: list[Job]) -> None:
    user = get_user_model().objects.create_user("viewer", password="a long password", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_job"))
    browser = Client()
    browser.force_login(user)
    assert browser.get(LIST).status_code == 200
    assert browser.post(f"{LIST}{jobs[0].pk}/cancel/").status_code == 403
    browser.post(LIST, {"action": "cancel_selected", "_selected_action": [str(jobs[0].pk)]})
    assert _states() == ["queued"] * 3


@pytest.mark.parametrize("guess", ["params__icontains=xyzzy", "result__isnull=1", "client__keys__digest__gt=a"])
def test_what_the_page_hides_cannot_be_guessed_by_its_filters(operator: Client, jobs: list[Job], guess: str) -> None:
    assert operator.get(f"{LIST}?{guess}").status_code == 400
    assert operator.get(f"{LIST}?state__exact=queued").status_code == 200
    assert operator.get("/admin/jobs/apikey/?digest__startswith=a").status_code == 400


def test_a_job_that_is_not_there_is_told_as_such(operator: Client, jobs: list[Job]) -> None:
    answer = operator.post(f"{LIST}01a22d4f-b82e-7886-8f63-89d8cd3b1f52/cancel/", follow=True)
    assert "There is no job 01a22d4f-b82e-7886-8f63-89d8cd3b1f52." in answer.content.decode()
    assert "already ended" not in answer.content.decode()


def test_nobody_adds_changes_or_deletes_a_job(operator: Client, jobs: list[Job]) -> None:
    assert operator.get(f"{LIST}add/").status_code == 403
    assert operator.post(f"{LIST}{jobs[0].pk}/change/", {"state": "succeeded"}).status_code == 403
    assert operator.post(f"{LIST}{jobs[0].pk}/delete/", {"post": "yes"}).status_code == 403
    assert _states() == ["queued"] * 3


@pytest.mark.parametrize("page", ["workernode", "sweep", "apiclient", "apikey", "upload", "artifact", "limitkey"])
def test_every_other_page_opens(operator: Client, page: str) -> None:
    assert operator.get(f"/admin/jobs/{page}/").status_code == 200


def test_strangers_are_sent_to_the_login(client: Client) -> None:
    assert client.get(LIST).status_code == 302


def test_an_attempt_shows_what_its_handler_logged_and_how_long_it_waited(operator: Client, jobs: list[Job]) -> None:
    Attempt.objects.create(
        job=jobs[0], number=1, pid=1, process_started=1, log="line 7 of the handler", wait_seconds=12.375
    )
    page = operator.get(f"{LIST}{jobs[0].pk}/change/").content.decode()
    assert "line 7 of the handler" in page
    assert "12.375" in page


def test_every_kind_of_page_has_a_name_that_is_a_word(operator: Client) -> None:
    page = operator.get("/admin/jobs/").content.decode()
    assert "Batches" in page
    assert not re.findall(r">[A-Z][a-z ]*(?:chs|rys|sss)<", page)
