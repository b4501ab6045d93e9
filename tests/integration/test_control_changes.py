"""Each change is written once, with who, when, from what to what and why; and known in every process within a second."""

from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.test import Client, TestCase
from structlog.testing import capture_logs

from jobs import classes, kept
from jobs.control import changing, effective, told
from jobs.control.changing import Operator, UnknownSubject, WrongControl
from jobs.models import ApiClient, ClassControl, ControlChange, TypeControl
from tests.in_process_api import PROBE
from tests.operators import BY, change
from tests.second_connections import Elsewhere, at_once, class_locked

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)


def records() -> list[tuple[Any, ...]]:
    return list(ControlChange.objects.order_by("id").values_list("kind", "name", "field", "before", "after"))


# ── The record ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_change_is_recorded_with_who_when_from_what_to_what_and_why() -> None:
    with capture_logs() as lines, TestCase.captureOnCommitCallbacks(execute=True):
        changing.change_class("heavy", {"max_waiting": 20, "paused": True}, Operator("API", "shop", "a flood"))
    assert records() == [("class", "heavy", "max_waiting", None, 20), ("class", "heavy", "paused", False, True)]
    one = ControlChange.objects.latest("id")
    assert (one.changed_by, one.why) == ("shop (API)", "a flood")
    assert one.changed_at == ControlChange.objects.earliest("id").changed_at
    assert [(line["field"], line["after"]) for line in lines if line["event"] == "control_changed"] == [
        ("max_waiting", 20),
        ("paused", True),
    ]
    change("class", "heavy", max_waiting=None)
    assert records()[-1] == ("class", "heavy", "max_waiting", 20, None)


def test_what_is_as_it_is_wanted_already_is_left_alone_and_who_set_it() -> None:
    change("class", "light", paused=True)
    since = ClassControl.objects.get().paused_at
    assert change("class", "light", paused=True, draining=False, max_waiting=None) == []
    assert ClassControl.objects.get().paused_at == since
    assert len(records()) == 1
    change("type", PROBE, paused=False)
    assert not TypeControl.objects.exists()


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "sentence"),
    [
        ("class", "light", {"max_waiting": "many"}, "max_waiting of class light is 'many', but must be a whole number from 0 to 10000."),
        ("class", "light", {"paused": "yes"}, "paused of class light is 'yes', but must be true or false."),
        ("class", "light", {"processes": 3}, "'processes' is nothing that can be set of a class; there are: paused, draining, max_waiting, max_backlog_seconds, max_wait_seconds, timeout_seconds."),
        ("client", "tests", {"paused": True}, "'paused' is nothing that can be set of a client; there are: suspended."),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_in_one_sentence(kind: str, name: str, wanted: Any, sentence: str) -> None:
    ApiClient.objects.create(name="tests")
    with pytest.raises(WrongControl) as refused:
        change(kind, name, **wanted)
    assert str(refused.value) == sentence
    assert records() == []


@pytest.mark.parametrize(("kind", "name"), [("class", "none"), ("type", "none.such"), ("client", "nobody")])
def test_what_is_not_there_cannot_be_changed(kind: str, name: str) -> None:
    with pytest.raises(UnknownSubject, match=f"There is no .* '{name}'"):
        change(kind, name, **{changing.SWITCHES[kind][0]: True})
    assert records() == []


def test_of_a_type_that_is_no_longer_there_a_hold_can_be_taken_back() -> None:
    TypeControl.objects.create(type="gone.type", refused_at="2030-01-01T00:00:00Z")
    change("type", "gone.type", refused=False)
    assert told.everything()[-1].kind == "class"


@two_connections
@pytest.mark.parametrize(("kind", "name"), [("class", "light"), ("type", PROBE), ("client", "tests")])
def test_of_several_who_say_the_same_at_once_one_has_changed_it(kind: str, name: str) -> None:
    ApiClient.objects.create(name="tests")
    switch = changing.SWITCHES[kind][0]
    changed = at_once(*[lambda: len(changing.CHANGE[kind](name, {switch: True}, BY))] * 4)
    assert sorted(changed) == [0, 0, 0, 1]
    assert records() == [(kind, name, switch, False, True)]


@two_connections
def test_a_change_that_fails_leaves_no_record_and_a_record_that_fails_no_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no record")

    monkeypatch.setattr(ControlChange.objects, "bulk_create", fails)
    with pytest.raises(RuntimeError):
        changing.change_class("light", {"paused": True}, BY)
    assert not ClassControl.objects.exists()


# ── Known within a second ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_process_that_knows_limits_asks_again_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process changes them: this one is not told, and finds out."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: clock.now))
    assert effective.get("light").max_waiting == 100
    ClassControl.objects.create(cost_class="light", max_waiting=3)
    assert effective.get("light").max_waiting == 100, "it may be a moment old"
    clock.now += 0.999
    assert effective.get("light").max_waiting == 3


def test_a_timeout_that_was_set_below_another_ceiling_does_not_rise_above_the_present_one() -> None:
    ClassControl.objects.create(cost_class="light", timeout_seconds=10_000)
    assert effective.get("light").timeout_seconds == classes.get("light").ceiling_seconds


def test_a_row_of_a_class_that_is_no_longer_declared_is_passed_over() -> None:
    ClassControl.objects.create(cost_class="gone", max_waiting=3, paused_at="2030-01-01T00:00:00Z")
    assert [one.name for one in told.everything()] == list(classes.declared())


@pytest.mark.parametrize(
    ("numbers", "variable", "source"),
    [({"max_waiting": 8}, "", "settings"), ({"max_waiting": 8}, "9", "environment"), ({}, "", "default")],
)
def test_where_a_limit_comes_from(
    settings: Any, monkeypatch: pytest.MonkeyPatch, numbers: Any, variable: str, source: str
) -> None:
    given = {**settings.COST_CLASSES["heavy"]}
    given.pop("max_waiting")
    settings.COST_CLASSES = {**settings.COST_CLASSES, "heavy": {**given, **numbers}}
    if variable:
        monkeypatch.setenv("WEIGHBRIDGE_HEAVY_MAX_WAITING", variable)
    assert classes.source("heavy", "max_waiting") == source


# ── manage.py control ────────────────────────────────────────────────────────────────────────────────────────────────


def control(*args: str) -> str:
    out = StringIO()
    with TestCase.captureOnCommitCallbacks(execute=True):
        call_command("control", *args, stdout=out)
    return out.getvalue()


def test_the_command_changes_lists_and_logs() -> None:
    ApiClient.objects.create(name="shop")
    assert control("class", "heavy", "set", "max_waiting=20", "max_wait_seconds=30", "--why", "night") == (
        "class heavy: max_waiting default → 20\nclass heavy: max_wait_seconds default → 30\n"
    )
    assert (
        control("class", "heavy", "set", "max_wait_seconds=default") == "class heavy: max_wait_seconds 30 → default\n"
    )
    assert control("class", "heavy", "pause") == "class heavy: paused no → yes\n"
    assert control("class", "heavy", "pause") == "It was so already; nothing was changed.\n"
    assert control("class", "light", "drain") == "class light: draining no → yes\n"
    assert control("type", PROBE, "refuse") == f"type {PROBE}: refused no → yes\n"
    assert control("client", "shop", "suspend") == "client shop: suspended no → yes\n"
    listed = [line.split("\t") for line in control("list").splitlines()]
    assert ["type", PROBE, "refused", "yes"] in [line[:4] for line in listed]
    (waiting,) = [line for line in listed if line[:3] == ["class", "heavy", "max_waiting"]]
    assert waiting[3] == "20"
    assert "(command)" in waiting[4]
    assert waiting[4].endswith("else 8: night")
    assert control("class", "heavy", "resume") == "class heavy: paused yes → no\n"
    assert control("type", PROBE, "resume") == f"type {PROBE}: refused yes → no\n"
    assert control("client", "shop", "resume") == "client shop: suspended yes → no\n"
    newest, *_, oldest = control("log").splitlines()
    assert "client shop: suspended yes → no" in newest
    assert oldest.endswith("night")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("class", "none", "pause"), "There is no cost class 'none'; there are: light, heavy."),
        (("type", "probe.slep", "pause"), "There is no job type 'probe.slep'; there are: "),
        (("class", "light", "set", "max_waiting=x"), "max_waiting of class light is 'x', but must be a whole number from 0 to 10000."),
        (("class", "light", "set", "processes=3"), "'processes=3' sets nothing; say one of max_waiting=VALUE"),
        (("class", "light", "set", "max_waiting"), "'max_waiting' sets nothing"),
        (("client", "nobody", "suspend"), "There is no client 'nobody'."),
        (("class", "light", "pause", "--why", "x" * 201), "why must be a text of at most 200 characters"),
    ],
)  # fmt: skip
def test_the_command_refuses_in_a_sentence(args: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        control(*args)
    assert str(refused.value).startswith(sentence)
    assert records() == []


# ── The admin ────────────────────────────────────────────────────────────────────────────────────────────────────────

AS_SHOWN = {"initial-paused": "True", "initial-max_waiting": "20", "initial-max_wait_seconds": "30"}
CLASSES, TYPES, CLIENTS = "/admin/jobs/classcontrol/", "/admin/jobs/typecontrol/", "/admin/jobs/apiclient/"


@pytest.fixture
def operator() -> Iterator[Client]:
    get_user_model().objects.create_superuser("operator", password="a long password")
    browser = Client()
    assert browser.login(username="operator", password="a long password")
    yield browser


def acted(browser: Client, page: str, action: str, *chosen: Any) -> Any:
    with TestCase.captureOnCommitCallbacks(execute=True):
        return browser.post(page, {"action": action, "_selected_action": [*chosen]}, follow=True)


def test_the_admin_lists_every_class_and_type_also_one_that_nobody_has_touched(operator: Client) -> None:
    page = operator.get(CLASSES).content.decode()
    assert all(f"{CLASSES}{name}/change/" in page for name in classes.declared())
    assert PROBE in operator.get(TYPES).content.decode()


def test_the_admins_actions_pause_drain_and_resume(operator: Client) -> None:
    operator.get(CLASSES)
    assert "Changed: 2." in acted(operator, CLASSES, "pause", "light", "heavy").content.decode()
    acted(operator, CLASSES, "drain", "heavy")
    assert ClassControl.objects.filter(pk="heavy", paused_at__isnull=False, draining_at__isnull=False).exists()
    acted(operator, CLASSES, "resume", "heavy")
    assert ClassControl.objects.filter(pk="heavy", paused_at=None, draining_at=None).exists()
    assert ControlChange.objects.filter(changed_by="operator (admin)").count() == 5


def test_a_reason_given_with_an_action_of_the_admin_is_recorded(operator: Client) -> None:
    operator.get(CLASSES)  # which makes the rows of all
    assert 'name="why"' in operator.get(TYPES).content.decode()
    for page, row, action in ((CLASSES, "heavy", "pause"), (TYPES, PROBE, "refuse"), (CLIENTS, None, "suspend")):
        selected = ApiClient.objects.create(name="shop").pk if row is None else row
        operator.post(page, {"action": action, "_selected_action": [selected], "why": "the disk is full"})
    assert [one.why for one in ControlChange.objects.all()] == ["the disk is full"] * 3
    too_long = {"action": "resume", "_selected_action": ["heavy"], "why": "x" * 201}
    assert "at most 200 characters" in operator.post(CLASSES, too_long, follow=True).content.decode()
    assert ControlChange.objects.count() == 3


def test_the_admin_pauses_and_refuses_types_and_suspends_clients(operator: Client) -> None:
    client = ApiClient.objects.create(name="shop")
    operator.get(TYPES)
    acted(operator, TYPES, "pause", PROBE)
    acted(operator, TYPES, "refuse", PROBE)
    assert TypeControl.objects.filter(pk=PROBE, paused_at__isnull=False, refused_at__isnull=False).exists()
    acted(operator, TYPES, "resume", PROBE)
    assert TypeControl.objects.filter(pk=PROBE, paused_at=None, refused_at=None).exists()
    acted(operator, CLIENTS, "suspend", client.pk)
    client.refresh_from_db()
    assert client.suspended_at is not None
    acted(operator, CLIENTS, "resume", client.pk)
    client.refresh_from_db()
    assert client.suspended_at is None
    assert len(records()) == 6


def test_the_admins_form_overrides_limits_and_says_what_stands(operator: Client) -> None:
    operator.get(CLASSES)
    page = f"{CLASSES}heavy/change/"
    assert 'name="initial-paused"' in operator.get(page).content.decode()
    with TestCase.captureOnCommitCallbacks(execute=True):
        answer = operator.post(page, {"max_waiting": "20", "max_wait_seconds": "30", "paused": "on", "why": "night"})
    assert answer.status_code == 302, answer.content
    assert effective.get("heavy").max_waiting == 20
    assert ControlChange.objects.filter(why="night", changed_by="operator (admin)").count() == 3
    shown = operator.get(page).content.decode()
    assert "operator (admin)" in shown
    assert "night" in shown
    with TestCase.captureOnCommitCallbacks(execute=True):
        operator.post(page, {"max_waiting": "", "max_wait_seconds": "30", **AS_SHOWN})
    assert records()[-2:] == [("class", "heavy", "paused", True, False), ("class", "heavy", "max_waiting", 20, None)]


def test_who_sets_a_limit_on_a_page_does_not_resume_what_was_paused_since_it_was_shown(operator: Client) -> None:
    operator.get(CLASSES)
    change("class", "heavy", paused=True, max_wait_seconds=5)
    with TestCase.captureOnCommitCallbacks(execute=True):
        operator.post(
            f"{CLASSES}heavy/change/", {"max_waiting": "3", "initial-paused": "False", "initial-max_waiting": ""}
        )
    row = ClassControl.objects.get(pk="heavy")
    assert (row.paused_at is not None, row.max_waiting, row.max_wait_seconds) == (True, 3, 5)


def test_the_admins_form_refuses_in_the_same_sentence(operator: Client) -> None:
    operator.get(CLASSES)
    answer = operator.post(f"{CLASSES}light/change/", {"timeout_seconds": "31"})
    assert answer.status_code == 200
    assert (
        "timeout_seconds of class light is 31.0, but must be at most the class&#x27;s ceiling_seconds, 30."
        in answer.content.decode()
    )
    assert records() == []


@two_connections
def test_a_class_that_is_at_its_admissions_is_said_to_be_busy(operator: Client, other: Elsewhere) -> None:
    operator.get(CLASSES)
    with class_locked("light", other):
        answer = operator.post(f"{CLASSES}light/change/", {"paused": "on"}, follow=True)
        assert "being changed by somebody else" in answer.content.decode()
        answer = operator.post(CLASSES, {"action": "drain", "_selected_action": ["light"]}, follow=True)
        assert "Light is being changed by somebody else" in answer.content.decode()
        with pytest.raises(CommandError, match="nothing was done"):
            control("class", "light", "pause")
    assert records() == []


def test_the_record_is_only_looked_at(operator: Client) -> None:
    change("class", "light", paused=True)
    page = "/admin/jobs/controlchange/"
    assert "paused" in operator.get(page).content.decode()
    one = ControlChange.objects.get()
    assert operator.post(f"{page}add/", {}).status_code == 403
    assert operator.post(f"{page}{one.pk}/delete/", {"post": "yes"}).status_code == 403
    assert operator.post(f"{page}{one.pk}/change/", {"why": "other"}).status_code == 403
    assert records() == [("class", "light", "paused", False, True)]


@pytest.mark.parametrize("page", [CLASSES, TYPES, CLIENTS])
def test_who_may_only_look_changes_nothing(operator: Client, client: Client, page: str) -> None:
    shop = ApiClient.objects.create(name="shop")
    operator.get(page)
    looker = get_user_model().objects.create_user("looker", password="a long password", is_staff=True)
    looker.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    assert client.login(username="looker", password="a long password")
    assert client.get(page).status_code == 200
    chosen: Any = {CLASSES: "light", TYPES: PROBE, CLIENTS: shop.pk}[page]
    for action in ("pause", "drain", "refuse", "suspend", "resume"):
        acted(client, page, action, chosen)
    client.post(f"{page}{chosen}/change/", {"paused": "on", "max_waiting": "1", "name": "other"})
    assert records() == []
