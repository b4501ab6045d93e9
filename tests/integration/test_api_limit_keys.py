"""A type names what there is only so much of, an operator says how much, and a change of it starts what it lets go (P12, P14)."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, TestCase
from structlog.testing import capture_logs

from jobs import registry, wakeups
from jobs.models import ApiClient, Job, LimitKey
from jobs.submit import submit
from tests import batch_calls
from tests.clean_slate import forget_queues
from tests.in_process_api import InProcessApi, a_probe_node, problem
from workers import JobContext, job
from workers.catalog.probe_params import ProbeParams

pytestmark = pytest.mark.django_db

TYPE = "tests.licensed"
PAGE = "/admin/jobs/limitkey/"


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", dict(registry._types))


@pytest.fixture
def operator() -> Iterator[Client]:
    get_user_model().objects.create_superuser("operator", password="a long password")
    browser = Client()
    assert browser.login(username="operator", password="a long password")
    yield browser


def a_type(keys: Any) -> str:
    @job(TYPE, cost_class="light", params=ProbeParams, limit_keys=keys)
    def licensed(ctx: JobContext[ProbeParams]) -> None: ...

    return TYPE


def keys_of(api: InProcessApi) -> list[str]:
    response = api.post(TYPE, {"seconds": 7})
    assert response.status_code == 202, response.content
    return list(Job.objects.get(pk=response.json()["id"]).limit_keys)


def saved(operator: Client, path: str, **form: Any) -> None:
    """A form of the admin, sent and committed."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert operator.post(path, form).status_code == 302


# ── What a type names ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        (("licence", "maps"), ["licence", "maps"]),
        (lambda params: [f"seconds:{params.seconds:g}"], ["seconds:7"]),
        (lambda params: ("same", "same"), ["same"]),
        (lambda params: (), []),
    ],
)
def test_a_job_has_the_keys_that_its_type_names(api: InProcessApi, named: Any, kept: list[str]) -> None:
    a_type(named)
    assert keys_of(api) == kept


def test_an_item_and_a_call_have_them_too(api: InProcessApi) -> None:
    a_type(lambda params: ["licence"])
    batch_calls.submitted(api, {"a": {"type": TYPE, "params": {"seconds": 0}}})
    submit(TYPE, {"seconds": 0})
    assert list(Job.objects.values_list("limit_keys", flat=True)) == [["licence"]] * 2


@pytest.mark.parametrize(
    "said", ["licence 4242", None, {"a"}, [1], [""], ["x" * 201], ["4242"] * 9, ["4242\0"]], ids=range(8)
)
def test_what_are_no_keys_is_the_authors_fault(api: InProcessApi, said: Any) -> None:
    a_type(lambda params: said)
    with capture_logs() as lines:
        problem(api.post(TYPE, {"seconds": 0}), 500, "internal_error")
    assert [line["type"] for line in lines if line["event"] == "wrong_limit_keys"] == [TYPE]
    assert "4242" not in str(lines)
    assert not Job.objects.exists()


# ── What an operator says ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_is_made_raised_and_removed_and_each_time_wakes_what_it_lets_go(
    api: InProcessApi, operator: Client
) -> None:
    a_type(("licence",))
    saved(operator, f"{PAGE}add/", pattern="licence", maximum=0)
    a_probe_node(types=(TYPE,), processes=4)
    for _ in range(3):
        assert api.post(TYPE, {"seconds": 0}).status_code == 202
    assert LimitKey.objects.get().maximum == 0
    forget_queues()
    saved(operator, f"{PAGE}licence/change/", maximum=2)
    assert LimitKey.objects.get().maximum == 2
    assert wakeups.queue_length("light") == 3
    forget_queues()
    saved(operator, f"{PAGE}licence/delete/", post="yes")
    assert not LimitKey.objects.exists()
    assert wakeups.queue_length("light") == 3


def test_nothing_is_woken_that_is_still_held(api: InProcessApi, operator: Client) -> None:
    a_type(("licence",))
    a_probe_node(types=(TYPE,))
    LimitKey.objects.create(pattern="licence", maximum=1)
    api.post(TYPE, {"seconds": 0})
    forget_queues()
    saved(operator, f"{PAGE}licence/change/", maximum=0)
    assert wakeups.queue_length("light") == 0


def test_a_clients_own_maximum_and_weight_are_set_on_its_page(api: InProcessApi, operator: Client) -> None:
    a_probe_node()
    page = f"/admin/jobs/apiclient/{api.client.pk}/change/"
    saved(operator, page, name="a", weight=2.5, max_running=0)
    assert ApiClient.objects.values_list("weight", "max_running").get(pk=api.client.pk) == (2.5, 0)
    api.submit()
    forget_queues()
    saved(operator, page, name="a", weight=2.5, max_running="")
    assert wakeups.queue_length("light") == 1


@pytest.mark.parametrize("weight", [0, 0.001, 101, -1])
def test_a_weight_beyond_its_range_is_refused(api: InProcessApi, operator: Client, weight: float) -> None:
    answer = operator.post(f"/admin/jobs/apiclient/{api.client.pk}/change/", {"name": "a", "weight": weight})
    assert answer.status_code == 200
    assert ApiClient.objects.get(pk=api.client.pk).weight == 1


def test_who_may_not_set_limits_cannot(client: Client) -> None:
    get_user_model().objects.create_user("looker", password="a long password", is_staff=True)
    assert client.login(username="looker", password="a long password")
    assert client.post(f"{PAGE}add/", {"pattern": "licence", "maximum": 0}).status_code == 403
    assert not LimitKey.objects.exists()
