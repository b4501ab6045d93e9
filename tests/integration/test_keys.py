"""Keys are made, listed, rotated and revoked by command, made and revoked in the admin; a key is shown once (P39)."""

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models.functions import Now
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from jobs import keys
from jobs.models import ApiClient, ApiKey
from tests.in_process_api import Web
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db

KEY = re.compile(r"wb_[A-Za-z0-9_-]{43}")
ADMIN_LIST = "/admin/jobs/apikey/"


def told(*words: object) -> str:
    """What the command prints on standard output."""
    output = StringIO()
    call_command("keys", *map(str, words), stdout=output, stderr=StringIO())
    return output.getvalue().strip()


def works(key: str) -> bool:
    return Web().get("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def row_of(key: str) -> ApiKey:
    return ApiKey.objects.get(digest=keys.digest(key))


def test_a_key_is_printed_once_and_lets_its_client_in() -> None:
    key = told("make", "shop")
    assert KEY.fullmatch(key)
    assert works(key)
    assert (row_of(key).client.name, row_of(key).scopes, row_of(key).expires_at) == ("shop", keys.USUAL_SCOPES, None)
    assert told("make", "shop") != key
    assert ApiClient.objects.filter(name="shop").count() == 1
    assert key not in told("list")


def test_a_key_may_have_few_scopes_and_an_end() -> None:
    key = told("make", "shop", "--scope", "jobs:read", "--scope", "jobs:submit", "--days", 30)
    row = row_of(key)
    assert row.scopes == ["jobs:read", "jobs:submit"]
    assert row.expires_at is not None
    assert row.expires_at - row.created_at == timedelta(days=30)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("make", "shop", "--scope", "jobs:everything"), "invalid choice: 'jobs:everything'"),
        (("make", "shop", "--days", "0"), "--days"),
        (("make", "(in-process)"), "(in-process) is the client of Django code in this installation; it has no keys."),
        (("make", " "), "must have 1 to 100 printable characters"),
        (("revoke", "4711"), "There is no key 4711"),
        (("rotate", "4711"), "There is no key 4711"),
        (("list", "shop"), "There is no client 'shop'."),
        (("make", "a\nb"), "must have 1 to 100 printable characters"),
        (("make", "\udcff"), "The client's name is '\\udcff'"),
        (("list", "\udcff"), "There is no client '\\udcff'."),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=re.escape(sentence)):
        told(*words)
    assert not ApiKey.objects.exists()


def test_a_revoked_key_stops_at_once_and_stays_revoked() -> None:
    key = told("make", "shop")
    told("revoke", row_of(key).pk)
    assert not works(key)
    with pytest.raises(CommandError, match="was revoked before"):
        told("revoke", row_of(key).pk)
    with pytest.raises(CommandError, match="was revoked"):
        told("rotate", row_of(key).pk)


def test_a_rotated_key_works_on_for_the_overlap_beside_the_new_one() -> None:
    old = told("make", "shop", "--scope", "jobs:read")
    new = told("rotate", row_of(old).pk, "--overlap-hours", 2)
    assert works(old)
    assert works(new)
    assert (row_of(new).client, row_of(new).scopes) == (row_of(old).client, ["jobs:read"])
    left = row_of(old).expires_at
    assert left is not None
    assert timedelta(hours=1.9) < left - row_of(new).created_at < timedelta(hours=2.1)
    ApiKey.objects.filter(pk=row_of(old).pk).update(expires_at=Now() - timedelta(seconds=1))
    assert not works(old)


def test_a_rotation_gives_no_key_a_longer_life() -> None:
    old = told("make", "shop", "--days", 1)
    before = row_of(old).expires_at
    told("rotate", row_of(old).pk, "--overlap-hours", 100)
    assert row_of(old).expires_at == before


def test_the_new_key_lasts_as_long_as_the_old_one_was_made_for_unless_it_is_said() -> None:
    old = told("make", "shop", "--days", 3)
    new = told("rotate", row_of(old).pk)
    lasts = row_of(new).expires_at
    assert lasts is not None
    assert timedelta(days=2.9) < lasts - row_of(new).created_at < timedelta(days=3.1)
    another = told("rotate", row_of(new).pk, "--days", 9)
    lasts = row_of(another).expires_at
    assert lasts is not None and lasts - row_of(another).created_at > timedelta(days=8.9)
    unlimited = told("make", "shop")
    assert row_of(told("rotate", row_of(unlimited).pk)).expires_at is None


def test_the_list_shows_what_each_key_is_for_when_it_was_used_and_when_it_ends() -> None:
    used, revoked = told("make", "shop"), told("make", "desk", "--days", "10")
    works(used)
    told("revoke", row_of(revoked).pk)
    lines = {int(line.split("\t")[0]): line for line in told("list").splitlines()}
    assert lines[row_of(used).pk].split("\t")[1:3] == [f"{used[:8]}…", "shop"]
    assert re.search(r"last used \d{4}-\d\d-\d\d \d\d:\d\dZ\tuntil it is revoked$", lines[row_of(used).pk])
    assert re.search(r"last used never\trevoked \d{4}-", lines[row_of(revoked).pk])
    assert list(lines) == [row_of(revoked).pk, row_of(used).pk]
    assert told("list", "desk").count("\n") == 0


def test_a_use_is_written_once_a_minute(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """P7: one look per request, and a write with the first of each minute."""
    key = told("make", "shop")
    with django_assert_num_queries(2):
        keys.live_key(key)
    first = row_of(key).last_used_at
    with django_assert_num_queries(1):
        keys.live_key(key)
    ApiKey.objects.update(last_used_at=Now() - timedelta(seconds=61))
    with django_assert_num_queries(2):
        keys.live_key(key)
    assert first is not None


@pytest.mark.django_db(transaction=True)
def test_nobodys_open_transaction_on_a_key_holds_up_its_requests(other: Elsewhere) -> None:
    key = told("make", "shop")
    with transaction.atomic():
        ApiKey.objects.select_for_update().get(digest=keys.digest(key))
        assert other.run(lambda: keys.live_key(key) is not None, 5)
    assert row_of(key).last_used_at is None


# ── In the admin ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def operator() -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long password"))
    return browser


def test_an_operator_makes_a_key_that_is_shown_once(operator: Client) -> None:
    owner = ApiClient.objects.create(name="shop")
    form = {"client": owner.pk, "scopes": ["jobs:read"], "expires_at_0": "", "expires_at_1": ""}
    assert operator.get(f"{ADMIN_LIST}add/").status_code == 200
    page = operator.post(f"{ADMIN_LIST}add/", form)
    found = KEY.search(page.content.decode())
    assert found is not None
    assert "no-store" in page.headers["Cache-Control"]
    assert works(found[0])
    assert row_of(found[0]).scopes == ["jobs:read"]
    for address in (ADMIN_LIST, f"{ADMIN_LIST}{row_of(found[0]).pk}/change/"):
        later = operator.get(address).content.decode()
        assert found[0] not in later
        assert row_of(found[0]).digest not in later


def test_a_scope_that_there_is_not_is_refused(operator: Client) -> None:
    owner = ApiClient.objects.create(name="shop")
    page = operator.post(f"{ADMIN_LIST}add/", {"client": owner.pk, "scopes": ["jobs:everything"]})
    assert "jobs:everything is not one of the available choices" in page.content.decode()
    assert not ApiKey.objects.exists()


def test_an_operator_revokes_keys(operator: Client) -> None:
    made = [told("make", "shop") for _ in range(2)]
    told("revoke", row_of(made[1]).pk)
    chosen = [row_of(key).pk for key in made]
    page = operator.post(ADMIN_LIST, {"action": "revoke", "_selected_action": chosen}, follow=True)
    assert "Revoked: 1; revoked before: 1." in page.content.decode()
    assert not any(map(works, made))


def test_an_operator_makes_a_client_by_its_name_alone(operator: Client) -> None:
    operator.post("/admin/jobs/apiclient/add/", {"name": "shop"})
    assert ApiClient.objects.get().name == "shop"


def test_who_may_only_look_makes_and_revokes_nothing() -> None:
    key = told("make", "shop")
    viewer = get_user_model().objects.create_user("viewer", password="a long password", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_apikey"))
    browser = Client()
    browser.force_login(viewer)
    assert browser.get(ADMIN_LIST).status_code == 200
    assert browser.get(f"{ADMIN_LIST}add/").status_code == 403
    browser.post(ADMIN_LIST, {"action": "revoke", "_selected_action": [row_of(key).pk]})
    assert works(key)
