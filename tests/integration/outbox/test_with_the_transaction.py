"""What a transaction asked for becomes a job with its commit, and nothing of it is left by a rollback."""

import pytest
from django.db import transaction

from jobs.models import ApiClient, IdempotencyKey, Job, OutboxEntry
from jobs.submit import IN_PROCESS, InTransaction, outbox, submit
from tests.in_process_api import PROBE
from tests.outbox_calls import PARAMS, Rollback, asked_for, entry_of, told
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db
really_committed = pytest.mark.django_db(transaction=True)


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
