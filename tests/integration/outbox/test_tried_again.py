"""What was not admitted with its commit is tried until it is, or is given up where everybody can see it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from structlog.testing import capture_logs

from jobs import classes, registry, telemetry
from jobs.models import Job, OutboxEntry
from jobs.submit import outbox, submit
from tests.in_process_api import PROBE
from tests.outbox_calls import (
    HEAVY,
    PARAMS,
    asked_for,
    come_due,
    entry_of,
    later,
    make_room,
    process_dies_at_the_commit,
    time_is_over,
    told,
)

pytestmark = pytest.mark.django_db
really_committed = pytest.mark.django_db(transaction=True)


@really_committed
def test_what_a_dying_process_left_is_admitted_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_dies_at_the_commit(monkeypatch), transaction.atomic():
        given = asked_for()
    assert told(given) == ("waiting", "")
    assert outbox.run_once() == 1
    assert (told(given), Job.objects.count()) == (("admitted", ""), 1)
    assert outbox.run_once() == 0


def test_a_full_class_is_tried_again_when_the_refusal_said(full: None) -> None:
    given = later(HEAVY)
    assert told(given) == ("waiting", "queue_full")
    make_room()
    assert outbox.run_once() == 0, "its time has not come"
    come_due()
    assert outbox.run_once() == 1
    assert (told(given), Job.objects.filter(state="queued").count()) == (("admitted", ""), 1)


def test_the_next_try_is_half_a_minute_away_at_most(full: None) -> None:
    """Without a live worker the Retry-After is five minutes."""
    later(HEAVY)
    entry = OutboxEntry.objects.annotate(now=Now()).get()
    assert timedelta(seconds=25) < entry.try_at - entry.now <= timedelta(seconds=30)


def test_a_class_that_stays_full_ends_it_given_up_visibly(full: None) -> None:
    before = telemetry.OUTBOX.labels("given_up")._value.get()
    given = later(HEAVY)
    time_is_over()
    with capture_logs() as logs:
        assert outbox.run_once() == 1
    assert told(given) == ("given_up", "queue_full")
    (line,) = [line for line in logs if line["event"] == "outbox_given_up"]
    assert (line["log_level"], line["entry_id"], line["reason"]) == ("warning", str(given.entry_id), "queue_full")
    assert "seconds" not in str(line), "params are never logged"
    assert telemetry.OUTBOX.labels("given_up")._value.get() == before + 1
    make_room()
    assert outbox.run_once() == 0
    assert not Job.objects.filter(state="queued").exists()


def test_at_the_very_end_of_its_time_it_is_tried_once_more(full: None) -> None:
    """So that what waited while no sweep ran is not given up without a look."""
    given = later(HEAVY)
    make_room()
    time_is_over()
    assert outbox.run_once() == 1
    assert told(given) == ("admitted", "")


@pytest.mark.parametrize("seconds", [0, 0.5, 604_801, float("nan")])
def test_how_long_it_is_tried_has_its_bounds(seconds: float) -> None:
    with pytest.raises(ValueError, match="keep_trying_seconds"):
        later(keep_trying_seconds=seconds)


@pytest.mark.parametrize(("asked", "setting", "expected"), [(None, 77, 77), (5, 77, 5)])
def test_how_long_it_is_tried_is_said_by_the_call_or_the_setting(
    settings: Any, full: None, asked: float | None, setting: float, expected: float
) -> None:
    settings.WEIGHBRIDGE_OUTBOX_SECONDS = setting
    entry = entry_of(later(HEAVY, keep_trying_seconds=asked))
    assert abs((entry.try_until - entry.written_at).total_seconds() - expected) < 1


def test_a_deadline_that_passes_meanwhile_gives_it_up(full: None) -> None:
    given = later(HEAVY, deadline_seconds=60)
    entry = entry_of(given)
    assert entry.deadline_at is not None
    assert entry.try_until == entry.deadline_at, "there is nothing to try for after it"
    OutboxEntry.objects.update(deadline_at=Now() - timedelta(seconds=1), try_at=Now())
    make_room()
    assert outbox.run_once() == 1
    assert told(given) == ("given_up", "deadline_infeasible")


def test_the_deadline_is_counted_from_the_call_and_not_from_the_admission(full: None) -> None:
    given = later(HEAVY, deadline_seconds=60, deadline_at=datetime(2090, 1, 1, tzinfo=UTC))
    OutboxEntry.objects.update(deadline_at=Now() + timedelta(seconds=20))
    make_room()
    come_due()
    outbox.run_once()
    job = Job.objects.get(state="queued")
    assert entry_of(given).job == job
    assert job.deadline_at is not None
    assert job.deadline_at - job.accepted_at < timedelta(seconds=21)


def test_a_type_that_nobody_knows_any_more_is_waited_for_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rolling deployment has processes of both kinds for a while."""
    with process_dies_at_the_commit(monkeypatch):
        given = later()
    with monkeypatch.context() as older:
        older.delitem(registry._types, PROBE)
        assert outbox.run_once() == 0
        assert told(given) == ("waiting", "unknown_type")
        time_is_over()
        assert outbox.run_once() == 1
    assert told(given) == ("given_up", "unknown_type")


def test_a_type_whose_own_code_fails_keeps_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(params: object) -> str:
        raise ZeroDivisionError("a secret")

    with process_dies_at_the_commit(monkeypatch):
        bad, good = later(HEAVY), later()
    with monkeypatch.context() as failing:
        failing.setattr(
            "jobs.door.weighing._class_of",
            lambda of, params: fail(params) if params.cost_class == "heavy" else _light(),
        )
        with capture_logs() as logs:
            outbox.run_once()
    assert (told(bad), told(good)) == (("waiting", "internal_error"), ("admitted", ""))
    assert "a secret" not in str(logs)


def _light() -> Any:
    return classes.get("light")


def test_a_key_of_another_request_gives_it_up_at_once() -> None:
    submit(PROBE, {"seconds": 1}, key="k")
    given = later(key="k")
    assert told(given) == ("given_up", "idempotency_mismatch")


def test_a_key_that_was_accepted_before_brings_its_job() -> None:
    first = submit(PROBE, PARAMS, key="k")
    given = later(key="k")
    assert told(given) == ("admitted", "")
    assert entry_of(given).job == first.job  # type: ignore[union-attr]
    assert Job.objects.count() == 1
