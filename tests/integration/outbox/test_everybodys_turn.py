"""No entry keeps another one waiting: quotas, rates, full classes, and the order."""

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs.models import ApiClient, Job, OutboxEntry
from jobs.submit import Admitted, OutboxFull, RateLimited, outbox, submit
from tests import job_rows
from tests.in_process_api import PROBE
from tests.outbox_calls import HEAVY, PARAMS, come_due, entry_of, later, make_room, process_dies_at_the_commit, told

pytestmark = pytest.mark.django_db


def test_the_clients_quota_holds_it_back() -> None:
    job_rows.a_client("few")
    ApiClient.objects.update(max_jobs=1)
    first, second = later(client="few"), later(client="few")
    assert (told(first), told(second)) == (("admitted", ""), ("waiting", "too_many_jobs"))
    Job.objects.update(state="cancelled", finished_at=Now())
    come_due()
    assert outbox.run_once() == 1
    assert told(second) == ("admitted", "")


def test_a_full_class_holds_no_other_class_up_and_is_asked_once_a_run(
    full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process_dies_at_the_commit(monkeypatch):
        heavy = [later(HEAVY) for _ in range(3)]
        light = later()
    assert outbox.run_once() == 1
    assert told(light) == ("admitted", "")
    assert sorted(told(each) for each in heavy) == [("waiting", ""), ("waiting", ""), ("waiting", "queue_full")]


def test_in_the_order_in_which_they_were_written(full: None) -> None:
    given = [later(HEAVY, labels={"n": str(n)}) for n in range(3)]
    make_room()
    come_due()
    assert outbox.run_once() == 3
    admitted = Job.objects.filter(state="queued").order_by("sequence")
    assert [job.pk for job in admitted] == [entry_of(each).job_id for each in given]


def test_one_clients_many_entries_keep_no_others_from_being_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its first ones have come due again before the last was tried."""
    job_rows.a_client("few")
    ApiClient.objects.update(max_jobs=1)
    monkeypatch.setattr(outbox, "BATCH", 2)
    with process_dies_at_the_commit(monkeypatch):
        submit(PROBE, PARAMS, client="few")
        many = [later(client="few") for _ in range(4)]
        other = later()
    for _ in range(3):
        outbox.run_once()
        OutboxEntry.objects.filter(state="waiting", tries__gt=0).update(try_at=Now())
    assert {told(each) for each in many} == {("waiting", "too_many_jobs")}
    assert told(other) == ("admitted", "")


def test_an_entry_counts_once_against_its_clients_rate_however_often_it_is_tried(full: None) -> None:
    """A class that stayed full took from the client what it could have submitted elsewhere, once."""
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=2)
    given = later(HEAVY, client="often")
    for _ in range(3):
        come_due()
        outbox.run_once()
    assert (told(given), entry_of(given).tries) == (("waiting", "queue_full"), 4)
    assert isinstance(submit(PROBE, PARAMS, client="often"), Admitted)
    assert isinstance(submit(PROBE, PARAMS, client="often"), RateLimited)
    make_room()
    come_due()
    assert outbox.run_once() == 1, "its own turn was counted long ago"


def test_of_a_client_that_submits_too_often_one_entry_a_run_is_tried_and_of_the_others_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=1)
    monkeypatch.setattr(outbox, "BATCH", 3)
    submit(PROBE, PARAMS, client="often")
    with process_dies_at_the_commit(monkeypatch):
        many = [later(client="often") for _ in range(5)]
        many += [later(HEAVY, client="often")]
        others = [later(), later()]
    assert outbox.run_once() == 2
    assert {told(each) for each in others} == {("admitted", "")}
    assert sorted(entry_of(each).tries for each in many) == [0, 0, 0, 0, 0, 1]


def test_what_the_rate_did_not_let_through_is_counted_when_it_does() -> None:
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=1)
    submit(PROBE, PARAMS, client="often")
    given = later(client="often")
    assert told(given) == ("waiting", "rate_limited")
    ApiClient.objects.update(submits_per_minute=2)  # which counts anew
    come_due()
    assert outbox.run_once() == 1
    assert isinstance(submit(PROBE, PARAMS, client="often"), Admitted)
    assert isinstance(submit(PROBE, PARAMS, client="often"), RateLimited)


def test_more_than_so_many_are_not_taken(monkeypatch: pytest.MonkeyPatch, full: None) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    later(HEAVY)
    later(HEAVY)
    with pytest.raises(OutboxFull), transaction.atomic():
        later(HEAVY)
    assert OutboxEntry.objects.count() == 2
    make_room()
    come_due()
    outbox.run_once()
    assert told(later(HEAVY)) == ("admitted", "")
