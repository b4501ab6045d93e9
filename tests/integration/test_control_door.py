"""What an operator has refused is refused at the door, by whichever way it comes, and limits are what an operator says they are (P3, P7)."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import TestCase
from pydantic import BaseModel

import jobs.submit as in_process
from jobs import admission, batches, entrance, registry, telemetry
from jobs.admission import Rejected, Replayed
from jobs.batches import BatchAdmitted, BatchRejected
from jobs.control import changing, effective
from jobs.door import asking
from jobs.door.asking import AskedJob
from jobs.door.idempotency import of_call
from jobs.door.invalid import InvalidJob
from jobs.entrance import Answer, Entered
from jobs.models import ClassControl, Job, OutboxEntry
from jobs.registry import JobType
from jobs.submit import outbox
from tests import job_rows
from tests.job_rows import TYPE, a_client, a_node
from tests.operators import BY, change
from tests.second_connections import Elsewhere, class_locked, elsewhere, waits_for_a_lock
from tests.submissions import a_batch, a_submission, submit, verdict
from tests.waiting import eventually

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)

REFUSES = [
    ("class", "light", "draining", "class_draining"),
    ("type", TYPE, "refused", "type_refused"),
    ("client", "tests", "suspended", "client_suspended"),
]


class Nothing(BaseModel):
    pass


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    a_client()
    known = {name: JobType(name, lambda ctx: None, Nothing, "light") for name in (TYPE, "tests.other")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **known})


def come_in(**said: Any) -> Entered[Answer]:
    """As a caller comes in, by the whole door."""
    asked = AskedJob(**{"type": TYPE, "params": {}, "labels": {}, "client": "tests", **said})
    client = a_client(asked.client)
    return entrance.come_in(client, asked.idempotency, lambda: asking.submission(asked, client))


# ── Refused ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_what_is_refused_is_refused_until_it_is_resumed(kind: str, name: str, switch: str, code: str) -> None:
    counted = telemetry.REJECTED.labels("light", code)
    before = counted._value.get()
    change(kind, name, **{switch: True})
    answer = submit()
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.room, answer.retry_after_seconds) == (code, None, 30)
    assert answer.retryable is (code != "client_suspended")
    assert not Job.objects.exists()
    assert counted._value.get() == before + 1
    change(kind, name, **{switch: False})
    assert verdict(submit()) == "admitted"


@pytest.mark.parametrize(
    ("kind", "name", "switch", "other"),
    [
        ("class", "heavy", "draining", {}),
        ("type", "tests.other", "refused", {}),
        ("client", "another", "suspended", {}),
    ],
)
def test_nothing_else_is_refused_with_it(kind: str, name: str, switch: str, other: dict[str, Any]) -> None:
    a_client("another")
    change(kind, name, **{switch: True})
    assert verdict(submit(**other)) == "admitted"


def test_draining_beats_full_and_the_clients_suspension_beats_both() -> None:
    assert verdict(submit(max_waiting=0)) == "queue_full"
    change("type", TYPE, refused=True)
    assert verdict(submit(max_waiting=0)) == "type_refused"
    change("class", "light", draining=True)
    assert verdict(submit(max_waiting=0)) == "class_draining"
    change("client", "tests", suspended=True)
    assert verdict(submit(max_waiting=0)) == "client_suspended"


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_who_is_refused_is_not_told_of_a_quota_first(kind: str, name: str, switch: str, code: str) -> None:
    client = a_client()
    client.max_jobs = 1
    client.save()
    assert verdict(submit(client=client)) == "admitted"
    change(kind, name, **{switch: True})
    assert verdict(submit(client=client)) == code


def test_a_suspended_client_spends_nothing_of_its_rate() -> None:
    client = a_client()
    client.submits_per_minute = 1
    client.save()
    change("client", "tests", suspended=True)
    assert [entered.answer.reason for entered in (come_in(), come_in()) if isinstance(entered.answer, Rejected)] == [
        "client_suspended"
    ] * 2
    change("client", "tests", suspended=False)
    assert verdict_of(come_in()) == "admitted"


def verdict_of(entered: Entered[Answer]) -> str:
    assert not isinstance(entered.answer, entrance.RateLimited)
    return verdict(entered.answer)


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_a_request_that_was_accepted_before_is_answered_with_its_job(
    kind: str, name: str, switch: str, code: str
) -> None:
    key = of_call("k", {"a": 1})
    assert verdict(submit(idempotency=key)) == "admitted"
    change(kind, name, **{switch: True})
    assert isinstance(submit(idempotency=key), Replayed)
    assert isinstance(come_in(idempotency=key).answer, Replayed)


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_a_call_in_the_same_installation_is_refused_too(kind: str, name: str, switch: str, code: str) -> None:
    a_client()
    change(kind, name, **{switch: True})
    answer = in_process.submit(TYPE, {}, client="tests")
    assert isinstance(answer, Rejected)
    assert answer.reason == code


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_an_outbox_entry_waits_until_it_is_taken(kind: str, name: str, switch: str, code: str) -> None:
    """It went with somebody's transaction: it is not given up for what an operator will take back."""
    a_client()
    change(kind, name, **{switch: True})
    with TestCase.captureOnCommitCallbacks(execute=True):
        in_process.submit(TYPE, {}, client="tests", on_commit=True)
    entry = OutboxEntry.objects.get()
    assert (entry.state, entry.reason) == ("waiting", code)
    change(kind, name, **{switch: False})
    assert outbox.try_one(entry.pk) == "admitted"


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def a_mixed_batch(atomic: bool) -> BatchAdmitted | BatchRejected | Any:
    """`light`, `other` of another type, and `heavy` of another class."""
    items = {
        "light": a_submission(),
        "other": a_submission(type="tests.other"),
        "heavy": a_submission(cost_class="heavy", type="tests.other"),
    }
    return batches.submit(a_batch(items, atomic=atomic))


@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_an_atomic_batch_with_one_such_item_is_refused(kind: str, name: str, switch: str, code: str) -> None:
    change(kind, name, **{switch: True})
    answer = a_mixed_batch(atomic=True)
    assert isinstance(answer, BatchRejected)
    assert answer.rejected.reason == code
    assert answer.item == (None if kind == "client" else "light")
    assert not Job.objects.exists()


def test_of_a_batch_that_is_not_atomic_the_rest_is_admitted() -> None:
    change("class", "light", draining=True)
    change("type", "tests.other", refused=True)
    answer = a_mixed_batch(atomic=False)
    assert isinstance(answer, BatchRejected)
    assert dict(answer.items) == {"light": "class_draining", "other": "class_draining", "heavy": "type_refused"}
    change("type", "tests.other", refused=False)
    assert isinstance(a_mixed_batch(atomic=False), BatchAdmitted)
    assert [job.cost_class for job in Job.objects.all()] == ["heavy"]


def test_no_item_of_a_suspended_client_is_admitted() -> None:
    change("client", "tests", suspended=True)
    answer = a_mixed_batch(atomic=False)
    assert isinstance(answer, BatchRejected)
    assert (answer.rejected.reason, dict(answer.items)) == ("client_suspended", {})
    assert not Job.objects.exists()


# ── Limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_overridden_waiting_room_holds_as_many_as_the_operator_says() -> None:
    a_node(processes=1)
    change("class", "light", max_waiting=1)
    assert [verdict_of(come_in()) for _ in range(3)] == ["admitted", "admitted", "queue_full"]
    assert {job.admitted_bound for job in Job.objects.all()} == {2}
    change("class", "light", max_waiting=2)
    assert [verdict_of(come_in()) for _ in range(2)] == ["admitted", "queue_full"]
    change("class", "light", max_waiting=None)
    assert verdict_of(come_in()) == "admitted"


def test_an_overridden_backlog_bounds_the_work_that_is_taken() -> None:
    a_node(processes=1)
    job_rows.a_queued_job(expected_seconds=5.0)
    assert verdict_of(come_in()) == "admitted"
    change("class", "light", max_backlog_seconds=4)
    assert verdict_of(come_in()) == "queue_full"


def test_an_overridden_longest_wait_is_the_default_and_the_most_that_may_be_asked_for() -> None:
    change("class", "light", max_wait_seconds=4)
    answer = come_in().answer
    assert not isinstance(answer, Rejected | entrance.RateLimited)
    job = answer.job
    assert job.start_by is not None
    assert (job.start_by - job.accepted_at).total_seconds() == 4
    with pytest.raises(InvalidJob, match="from 0.1 to 4 seconds"):
        come_in(max_wait_seconds=5.0)
    assert effective.get("light").backlog_seconds == pytest.approx(3.2), "which follows the longest wait"


def test_an_overridden_timeout_is_the_default_of_jobs_that_say_none() -> None:
    change("class", "light", timeout_seconds=3)
    answer = come_in().answer
    assert not isinstance(answer, Rejected | entrance.RateLimited)
    assert answer.job.timeout_seconds == 3


def test_items_of_a_batch_have_the_overridden_limits_too() -> None:
    change("class", "light", max_waiting=1)
    items = {
        str(number): asking.submission(AskedJob(type=TYPE, params={}, labels={}), a_client()) for number in range(4)
    }
    answer = batches.submit(a_batch(items, atomic=False))
    assert isinstance(answer, BatchAdmitted)
    assert Job.objects.count() == 1


# ── Races ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@two_connections
@pytest.mark.parametrize(("kind", "name", "switch", "code"), REFUSES)
def test_an_admission_that_waits_for_its_turn_sees_what_was_refused_meanwhile(
    other: Elsewhere, kind: str, name: str, switch: str, code: str
) -> None:
    """It was decided once before the class's lock, and is decided anew under it (P1)."""
    submission = a_submission()
    pid = other.backend_pid()
    with elsewhere() as holder, class_locked("light", holder):
        waiting = other.start(lambda: verdict(admission.submit(submission)))
        eventually(lambda: waits_for_a_lock(pid))
        if kind != "class":  # which would wait for the lock as well
            change_now(kind, name, switch)
        else:
            _written_past_the_lock(name)
    assert waiting.result(20) == code
    assert not Job.objects.exists()


def change_now(kind: str, name: str, switch: str) -> None:
    changing.CHANGE[kind](name, {switch: True}, BY)


def _written_past_the_lock(name: str) -> None:
    ClassControl.objects.create(cost_class=name, draining_at=Now())


@two_connections
def test_a_drain_is_answered_when_the_admissions_before_it_have_ended(other: Elsewhere) -> None:
    """It takes the class's lock: whatever was decided before is committed before, and what comes after is refused."""
    a_client()
    with elsewhere() as operator:
        pid = operator.backend_pid()
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:light', 0))")
            draining = operator.start(lambda: change_now("class", "light", "draining"))
            eventually(lambda: waits_for_a_lock(pid))
            assert not draining.done()
        draining.result(20)
    assert verdict(submit()) == "class_draining"
