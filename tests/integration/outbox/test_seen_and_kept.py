"""Who waits and what ended is seen, and kept as long as jobs are."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import IntegrityError
from django.test import Client

from jobs import admission, sweeps, wakeups
from jobs.models import Job, OutboxEntry
from jobs.submit import outbox
from jobs.turns.pacing import Arrival
from tests.in_process_api import a_probe_node
from tests.outbox_calls import HEAVY, admission_of, asked_for, later, time_is_over, told

pytestmark = pytest.mark.django_db
really_committed = pytest.mark.django_db(transaction=True)


def test_what_waits_and_what_ended_is_in_the_metrics(full: None) -> None:
    later(HEAVY)
    page = Client().get("/metrics").content.decode()
    assert 'jobs_outbox_waiting{cost_class="heavy"} 1.0' in page
    assert 'jobs_outbox_waiting{cost_class="light"} 0.0' in page
    assert 'jobs_outbox_oldest_seconds{cost_class="heavy"}' in page
    assert 'jobs_outbox_ended_total{outcome="given_up"}' in page


def test_operators_see_it_in_the_admin_but_never_the_params(full: None) -> None:
    given = later({"seconds": 31_337, "cost_class": "heavy"})
    get_user_model().objects.create_superuser("operator", password="a long password")
    browser = Client()
    assert browser.login(username="operator", password="a long password")
    for address in ("/admin/jobs/outboxentry/", f"/admin/jobs/outboxentry/{given.entry_id}/change/"):
        page = browser.get(address).content.decode()
        assert "queue_full" in page
        assert str(given.entry_id) in page
        assert "31337" not in page


def test_what_was_given_up_is_kept_as_long_as_jobs_are(full: None, settings: Any) -> None:
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 1_000
    for _ in range(2):
        later(HEAVY)
    time_is_over()
    outbox.run_once()
    outbox.run_once()
    old = OutboxEntry.objects.first()
    assert old is not None
    OutboxEntry.objects.filter(pk=old.pk).update(ended_at=Now() - timedelta(seconds=1_005))
    waiting = later(HEAVY)
    sweeps.prune()
    assert set(OutboxEntry.objects.values_list("state", flat=True)) == {"given_up", "waiting"}
    assert not OutboxEntry.objects.filter(pk=old.pk).exists()
    assert told(waiting)[0] == "waiting"


def test_an_admitted_entry_goes_with_its_job(settings: Any) -> None:
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = settings.WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS = 1_000
    later()
    Job.objects.update(state="cancelled", finished_at=Now() - timedelta(seconds=1_005))
    sweeps.prune()
    assert not (OutboxEntry.objects.exists() or Job.objects.exists())


@pytest.mark.parametrize(
    "change",
    [
        {"state": "admitted", "ended_at": Now()},
        {"state": "given_up"},
        {"ended_at": Now()},
        {"state": "nothing", "ended_at": Now()},
    ],
)
def test_the_database_refuses_an_entry_that_cannot_be(full: None, change: dict[str, Any]) -> None:
    later(HEAVY)
    with pytest.raises(IntegrityError), transaction.atomic():
        OutboxEntry.objects.update(**change)


@really_committed
def test_the_wake_up_of_an_admitted_entry_is_sent() -> None:
    a_probe_node()
    with transaction.atomic():
        asked_for()
    assert wakeups.queue_length("light") == 1


def test_the_row_is_held_before_anything_is_admitted(full: None) -> None:
    """Whatever the planner thinks of it: the look for the entry comes first, and without it the function is not called."""
    given = later(HEAVY)
    arguments = {**admission._arguments(admission_of(given), Arrival()), "outbox": given.entry_id}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT TEXT) {admission._ADMIT_ENTRY}", arguments)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    nested = plan.partition("CTE answer")[2].partition("CTE marked")[0]
    assert nested.index("CTE Scan on asked") < nested.index("Function Scan")
    assert "Nested Loop" in nested
