"""What a transaction asked for becomes a job once it is committed, or is given up where everybody can see it; never two jobs, and none without the commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import IntegrityError
from django.test import Client, TestCase
from structlog.testing import capture_logs

from jobs import admission, classes, registry, sweeps, telemetry, wakeups
from jobs.door import asking
from jobs.models import ApiClient, IdempotencyKey, Job, OutboxEntry
from jobs.submit import IN_PROCESS, Admitted, Deferred, InTransaction, OutboxFull, RateLimited, calls, outbox, submit
from tests import job_rows
from tests.in_process_api import PROBE, a_probe_node
from tests.second_connections import Elsewhere, at_once

pytestmark = pytest.mark.django_db
really_committed = pytest.mark.django_db(transaction=True)

PARAMS = {"seconds": 0}
HEAVY = {"seconds": 0, "cost_class": "heavy"}


class Rollback(Exception):
    pass


def asked_for(params: dict[str, Any] = PARAMS, **fields: Any) -> Deferred:
    """In the transaction that is open."""
    return submit(PROBE, params, on_commit=True, **fields)


def later(params: dict[str, Any] = PARAMS, **fields: Any) -> Deferred:
    """In a transaction of its own, which is committed; as far as Django's TestCase lets it be."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        return asked_for(params, **fields)


def entry_of(deferred: Deferred) -> OutboxEntry:
    return OutboxEntry.objects.select_related("job").get(pk=deferred.entry_id)


def told(deferred: Deferred) -> tuple[str, str]:
    entry = entry_of(deferred)
    return entry.state, entry.reason


@contextmanager
def process_dies_at_the_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the commit itself did stays; what was to follow it does not happen."""
    with monkeypatch.context() as dying:
        dying.setattr(outbox, "_try_at_once", lambda entry_id: None)
        yield


@pytest.fixture
def full() -> Iterator[None]:
    """The heavy class has no room until the fixture's jobs are gone."""
    for _ in range(8):
        submit(PROBE, HEAVY)
    yield


def make_room() -> None:
    Job.objects.filter(cost_class="heavy", state="queued").update(state="cancelled", finished_at=Now())


def come_due() -> None:
    OutboxEntry.objects.filter(state="waiting").update(try_at=Now())


def time_is_over() -> None:
    OutboxEntry.objects.filter(state="waiting").update(try_at=Now(), try_until=Now())


# ── With the transaction ─────────────────────────────────────────────────────────────────────────────────────────────


@really_committed
def test_the_job_comes_right_after_the_commit_and_not_before() -> None:
    with transaction.atomic():
        given = asked_for(labels={"order": "7"}, timeout_seconds=3, key="k")
        assert (Job.objects.count(), told(given)) == (0, ("waiting", ""))
    entry = entry_of(given)
    assert (entry.state, entry.reason, entry.tries) == ("admitted", "", 1)
    job = Job.objects.get()
    assert entry.job == job
    assert (job.labels, job.timeout_seconds, job.params) == ({"order": "7"}, 3, PARAMS)
    assert IdempotencyKey.objects.get().job == job
    assert entry.params == {}  # the job has them


@really_committed
def test_a_rollback_leaves_nothing() -> None:
    with pytest.raises(Rollback), transaction.atomic():
        asked_for()
        raise Rollback
    assert not (OutboxEntry.objects.exists() or Job.objects.exists())
    assert not ApiClient.objects.exists()


@really_committed
def test_what_a_savepoint_asked_for_goes_with_the_savepoint() -> None:
    with transaction.atomic():
        kept = asked_for(labels={"which": "kept"})
        with pytest.raises(Rollback), transaction.atomic():
            asked_for(labels={"which": "undone"})
            raise Rollback
        with transaction.atomic():
            inner = asked_for(labels={"which": "inner"})
        assert not Job.objects.exists()
    assert {job.labels["which"] for job in Job.objects.all()} == {"kept", "inner"}
    assert (told(kept), told(inner)) == (("admitted", ""), ("admitted", ""))


@really_committed
def test_a_savepoint_that_held_is_undone_with_the_transaction_around_it() -> None:
    with pytest.raises(Rollback), transaction.atomic():
        with transaction.atomic():
            asked_for()
        raise Rollback
    assert not (OutboxEntry.objects.exists() or Job.objects.exists())


@really_committed
def test_the_first_two_transactions_of_all_do_not_wait_for_each_other(other: Elsewhere) -> None:
    """Not even to make the client that both of them need."""
    with transaction.atomic():
        first = asked_for()
        second = other.run(lambda: told(submit(PROBE, PARAMS, on_commit=True)), within_seconds=5)
    assert (told(first), second) == (("admitted", ""), ("admitted", ""))
    assert [client.name for client in ApiClient.objects.all()] == [IN_PROCESS]


@really_committed
def test_a_durable_transaction_is_one_like_any_other() -> None:
    with transaction.atomic(durable=True):
        given = asked_for()
    assert told(given) == ("admitted", "")


@really_committed
def test_outside_of_any_transaction_it_is_admitted_at_once() -> None:
    given = asked_for()
    assert told(given) == ("admitted", "")
    assert Job.objects.count() == 1


@really_committed
def test_in_a_transaction_without_atomic_the_sweep_finds_it_after_the_commit() -> None:
    transaction.set_autocommit(False)
    try:
        given = asked_for()
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert told(given) == ("waiting", "")
    assert outbox.run_once() == 1
    assert told(given) == ("admitted", "")


@really_committed
def test_no_other_connection_sees_it_before_the_commit(other: Elsewhere) -> None:
    with transaction.atomic():
        asked_for()
        assert other.run(outbox.run_once) == 0
    assert Job.objects.count() == 1


def test_a_transaction_of_another_database_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are in `default`: nobody could tie an entry there to a commit elsewhere."""
    monkeypatch.setattr("jobs.submit._in_transaction", lambda alias: alias == "archive")
    archive = type("Archive", (), {"alias": "archive"})()
    monkeypatch.setattr("jobs.submit.connections.all", lambda initialized_only: [archive])
    with pytest.raises(InTransaction, match="'archive'"):
        asked_for()


# ── The process dies, the class is full, somebody else is faster ─────────────────────────────────────────────────────


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


# ── Never twice ──────────────────────────────────────────────────────────────────────────────────────────────────────


@really_committed
def test_four_sweeps_at_once_make_one_job_of_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    together = 0
    for _ in range(10):
        with process_dies_at_the_commit(monkeypatch):
            given = [later() for _ in range(5)]
        ended = at_once(*[outbox.run_once] * 4)
        outbox.run_once()
        assert sum(ended) <= 5
        together += sum(one > 0 for one in ended) > 1
        assert {told(each) for each in given} == {("admitted", "")}
        assert len({entry_of(each).job_id for each in given}) == 5
        assert Job.objects.count() == 5
        OutboxEntry.objects.all().delete()
        Job.objects.all().delete()
    print(f"rounds in which several sweeps admitted: {together}")
    assert together >= 1


@really_committed
def test_whoever_comes_while_somebody_has_the_entry_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch, other: Elsewhere
) -> None:
    """Its row is held from before the locks of admission to the commit; nobody waits for it (P6)."""
    with process_dies_at_the_commit(monkeypatch):
        given = asked_for()
    with transaction.atomic():
        OutboxEntry.objects.select_for_update().get(pk=given.entry_id)
        assert other.run(lambda: outbox.try_one(given.entry_id), within_seconds=5) == "gone"
    assert (told(given), Job.objects.count()) == (("waiting", ""), 0)
    assert outbox.run_once() == 1
    assert (told(given), Job.objects.count()) == (("admitted", ""), 1)


def admission_of(given: Deferred) -> admission.Submission:
    entry = OutboxEntry.objects.select_related("client").get(pk=given.entry_id)
    return asking.submission(outbox._as_asked(entry), entry.client or calls.client_named(IN_PROCESS), entry.pk)


def test_an_entry_that_has_ended_admits_nothing_whoever_still_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_dies_at_the_commit(monkeypatch):
        given = later()
    asked = admission_of(given)
    assert outbox.run_once() == 1
    with pytest.raises(admission.EntryGone):
        admission.submit(asked)
    OutboxEntry.objects.all().delete()
    assert outbox.try_one(given.entry_id) == "gone"
    assert Job.objects.count() == 1


def test_a_crash_after_the_admission_cannot_part_the_job_from_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement makes the job and marks the entry: whoever dies with its answer has done both or nothing."""

    def die(self: object, *given: object) -> None:
        raise KeyboardInterrupt

    with process_dies_at_the_commit(monkeypatch):
        given = later()
    with monkeypatch.context() as dying:
        dying.setattr(admission, "_as_row", die)
        with pytest.raises(KeyboardInterrupt):
            outbox.run_once()
    assert (told(given), Job.objects.count()) == (("admitted", ""), 1)
    assert outbox.run_once() == 0
    assert Job.objects.count() == 1


def test_an_admission_that_is_rolled_back_leaves_the_entry_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_dies_at_the_commit(monkeypatch):
        given = later()
    with pytest.raises(Rollback), transaction.atomic():
        admission.submit(admission_of(given))
        assert told(given) == ("admitted", "")
        raise Rollback
    assert (told(given), Job.objects.count()) == (("waiting", ""), 0)


@really_committed
def test_a_refused_try_writes_no_job_and_holds_no_row(full: None) -> None:
    given = later(HEAVY)
    with transaction.atomic():
        OutboxEntry.objects.select_for_update(nowait=True).get(pk=given.entry_id)
    assert Job.objects.count() == 8


# ── Seeing it ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    arguments = {**admission._arguments(admission_of(given)), "outbox": given.entry_id}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT TEXT) {admission._ADMIT_ENTRY}", arguments)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    nested = plan.partition("CTE answer")[2].partition("CTE marked")[0]
    assert nested.index("CTE Scan on asked") < nested.index("Function Scan")
    assert "Nested Loop" in nested
