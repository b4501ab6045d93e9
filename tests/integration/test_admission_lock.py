"""What a decision at the door costs, and whom its lock makes wait (P1, P6, P7)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs import admission, lifecycle, queries
from jobs.admission import Admitted, Rejected
from jobs.capacity import Room
from jobs.models import Job, WorkerNode
from tests import job_rows
from tests.second_connections import Elsewhere, begun_behind, class_locked, waits_for_a_lock
from tests.submissions import a_submission, submit, verdict
from tests.waiting import eventually

# ── What a decision costs (P1, P7) ───────────────────────────────────────────────────────────────────────────────────


def test_an_acceptance_is_one_round_trip(node: WorkerNode) -> None:
    asked = a_submission()
    with CaptureQueriesContext(connection) as queries_made:
        assert verdict(admission.submit(asked)) == "admitted"
    assert len(queries_made) == 1


def test_a_refusal_by_the_count_is_one_round_trip(node: WorkerNode) -> None:
    """The drain and the run times that Retry-After needs are asked for once a second, not once a refusal."""
    asked = a_submission(0)
    while verdict(admission.submit(asked)) == "admitted":
        pass
    with CaptureQueriesContext(connection) as queries_made:
        answers = [verdict(admission.submit(asked)) for _ in range(20)]
    assert answers == ["queue_full"] * 20
    measured = [query for query in queries_made if "finished_at" in query["sql"] or "runtimes" in query["sql"]]
    assert len(queries_made) - len(measured) == 20
    assert len(measured) <= 4  # both; how many seconds the loop may touch


@pytest.mark.django_db(transaction=True)
def test_a_refusal_by_the_count_writes_nothing() -> None:
    job_rows.a_queued_job()
    asked = a_submission(1)
    with transaction.atomic():
        assert verdict(admission.submit(asked)) == "queue_full"
        assert not _has_written()
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_refusal_for_the_type_writes_nothing() -> None:
    job_rows.a_node()
    asked = a_submission(type="tests.unknown")
    with transaction.atomic():
        assert verdict(admission.submit(asked)) == "type_unavailable"
        assert not _has_written()


@pytest.mark.django_db(transaction=True)
def test_an_acceptance_is_seen_to_write() -> None:
    """That the three tests beside this one can fail."""
    asked = a_submission()
    with transaction.atomic():
        assert verdict(admission.submit(asked)) == "admitted"
        assert _has_written()


@pytest.mark.django_db(transaction=True)
def test_one_that_loses_under_the_lock_sees_the_winner_and_writes_nothing(other: Elsewhere) -> None:
    """P1, P7: the last place goes to whoever holds the lock; who waited counts again, with a newer snapshot."""
    asked = a_submission(1)

    def lose() -> tuple[str, bool]:
        with transaction.atomic():
            return verdict(admission.submit(asked)), _has_written()

    loser = begun_behind(lambda: admission.submit(asked), other, lose)
    assert loser.result(10) == ("queue_full", False)
    assert Job.objects.count() == 1


def _has_written() -> bool:
    """Whether the open transaction has a transaction id, which it gets with its first write."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
        return cursor.fetchone()[0] is not None


# ── The class lock ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
def test_who_cannot_get_the_lock_within_a_second_is_told_unavailable(other: Elsewhere) -> None:
    with class_locked("light", by=other):
        answer = submit()
        assert isinstance(answer, Rejected)
        assert (answer.reason, answer.retry_after_seconds, answer.room) == ("unavailable", 1, None)
    assert not Job.objects.exists()
    assert verdict(submit()) == "admitted"


@pytest.mark.django_db(transaction=True)
def test_the_wait_for_the_lock_is_about_a_second(other: Elsewhere) -> None:
    with class_locked("light", by=other), connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        began = cursor.fetchone()[0]
        assert verdict(submit()) == "unavailable"
        cursor.execute("SELECT clock_timestamp() - %s", [began])
        assert timedelta(seconds=1) <= cursor.fetchone()[0] <= timedelta(seconds=2)


@pytest.mark.django_db(transaction=True)
def test_a_refusal_by_the_count_takes_no_lock(other: Elsewhere) -> None:
    """Had it asked for the lock, it would be told `unavailable` after a second."""
    job_rows.a_queued_job()
    with class_locked("light", by=other):
        assert verdict(submit(1)) == "queue_full"


@pytest.mark.django_db(transaction=True)
def test_a_refusal_for_the_type_takes_no_lock(other: Elsewhere) -> None:
    job_rows.a_node()
    with class_locked("light", by=other):
        assert verdict(submit(type="tests.unknown")) == "type_unavailable"


@pytest.mark.django_db(transaction=True)
def test_another_class_is_not_held_up(other: Elsewhere) -> None:
    with class_locked("light", by=other):
        assert verdict(submit(cost_class="heavy")) == "admitted"


@pytest.mark.django_db(transaction=True)
def test_claims_settles_cancels_and_sweeps_do_not_queue_behind_admissions(other: Elsewhere) -> None:
    """They hold rows, so they must not ask for a class's lock (P6)."""
    node = job_rows.a_node()
    late = job_rows.a_queued_job(start_by=job_rows.later(-1))
    first, second = job_rows.a_queued_job(), job_rows.a_queued_job()
    with class_locked("light", by=other), connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '5s'")  # a wait is then an error, not a hanging test
        try:
            claimed = job_rows.claim(node)
            assert claimed is not None and claimed.job_id == first.pk
            assert job_rows.succeed(claimed) == "succeeded"
            assert lifecycle.cancel(second.pk)
            assert lifecycle.expire() == 1
            assert lifecycle.reap() == 0
            assert queries.room("light") == Room(0, 0, 2)
        finally:
            cursor.execute("RESET lock_timeout")
    assert job_rows.read(late.pk).state == "expired"


@pytest.mark.django_db(transaction=True)
def test_the_lock_goes_with_the_admission_that_took_it(other: Elsewhere) -> None:
    """P35: none is held for a session, so a pooled connection carries none away."""
    assert verdict(submit()) == "admitted"
    assert verdict(other.run(submit)) == "admitted"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert cursor.fetchone()[0] == 0


@pytest.mark.django_db(transaction=True)
def test_the_longest_wait_counts_from_after_the_wait_for_the_lock(other: Elsewhere) -> None:
    """A job is not born with a part of its time gone."""
    asked = a_submission(5, max_wait_seconds=60)

    def admitted_while_locked() -> Any:
        answer = admission.submit(asked)
        assert isinstance(answer, Admitted)
        return answer.job

    pid = other.backend_pid()
    with transaction.atomic(), connection.cursor() as cursor:
        admission.submit(asked)
        waiting = other.start(admitted_while_locked)
        eventually(lambda: waits_for_a_lock(pid))
        cursor.execute("SELECT clock_timestamp()")
        still_locked_at = cursor.fetchone()[0]
    job = waiting.result(10)
    assert job.accepted_at > still_locked_at
    assert job.start_by - job.accepted_at == timedelta(seconds=60)
