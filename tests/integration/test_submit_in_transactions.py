"""No transaction stands around an admission (P1)."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, TestCase
from django.urls import path

from jobs.models import Job, OutboxEntry
from jobs.submit import (
    Admitted,
    Deferred,
    InTransaction,
    InvalidJob,
    submit,
)
from tests.in_process_api import PROBE

pytestmark = pytest.mark.django_db

PARAMS = {"seconds": 0}
HEAVY = {"seconds": 0, "cost_class": "heavy"}


def test_inside_a_transaction_it_refuses_and_says_what_to_do() -> None:
    with transaction.atomic(), pytest.raises(InTransaction, match="on_commit=True"):
        submit(PROBE, PARAMS)
    assert not Job.objects.exists()
    assert isinstance(submit(PROBE, PARAMS), Admitted)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("durable", [False, True])
def test_it_refuses_in_every_kind_of_transaction(durable: bool) -> None:
    with transaction.atomic(durable=durable), pytest.raises(InTransaction):
        submit(PROBE, PARAMS)
    with transaction.atomic(), transaction.atomic(savepoint=False), pytest.raises(InTransaction):
        submit(PROBE, PARAMS)
    transaction.set_autocommit(False)
    try:
        with pytest.raises(InTransaction):
            submit(PROBE, PARAMS)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert isinstance(submit(PROBE, PARAMS), Admitted)


@pytest.mark.django_db(transaction=True)
def test_after_the_commit_it_is_free_to_submit() -> None:
    done: list[object] = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append(submit(PROBE, PARAMS)))
    assert isinstance(done[0], Admitted)


def _view(request: HttpRequest) -> HttpResponse:
    on_commit = request.GET.get("on_commit") == "yes"
    answer: object = submit(PROBE, PARAMS, on_commit=on_commit)  # type: ignore[call-overload]
    return HttpResponse(type(answer).__name__)


urlpatterns = [path("team", _view)]


@pytest.mark.django_db(transaction=True)
def test_with_atomic_requests_a_view_must_say_on_commit(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of a stack refuses that setting for `default`; a team that runs Django by itself may have it."""
    settings.ROOT_URLCONF = __name__
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    with pytest.raises(InTransaction):
        Client().get("/team")
    assert not Job.objects.exists()
    assert Client().get("/team?on_commit=yes").content == b"Deferred"
    assert Job.objects.count() == 1


class InsideDjangosTestCase(TestCase):
    """Which wraps every test in a transaction that is never committed: it counts for none, as it does for `durable`."""

    def test_a_submit_is_admitted_in_the_tests_own_transaction(self) -> None:
        assert isinstance(submit(PROBE, PARAMS), Admitted)
        assert Job.objects.count() == 1

    def test_nothing_is_left_of_it(self) -> None:
        assert not Job.objects.exists()

    def test_a_transaction_of_the_code_under_test_is_one(self) -> None:
        with transaction.atomic(), pytest.raises(InTransaction):
            submit(PROBE, PARAMS)

    def test_on_commit_is_admitted_when_the_test_says_that_it_is_committed(self) -> None:
        with self.captureOnCommitCallbacks(execute=True), transaction.atomic():
            submit(PROBE, PARAMS, on_commit=True)
            assert not Job.objects.exists()
        assert Job.objects.count() == 1
        assert OutboxEntry.objects.get().state == "admitted"


def test_no_connection_is_opened_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no job is told also where no database is."""
    monkeypatch.setattr(connection, "ensure_connection", _not_to_be_called)
    with pytest.raises(InvalidJob):
        submit(PROBE, {"seconds": object()})


def _not_to_be_called(*given: object) -> Callable[[], None]:
    raise AssertionError


def test_deferred_names_its_entry() -> None:
    answer = submit(PROBE, PARAMS, on_commit=True)
    assert isinstance(answer, Deferred)
    assert OutboxEntry.objects.get().pk == answer.entry_id
