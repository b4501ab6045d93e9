"""A queued job whose type nobody knows any more ends, but only once that is certain (P27)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import lifecycle, queries, sweeps, telemetry
from jobs.models import Job
from tests import job_rows
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db

OTHER = ("tests.other",)


def _ago(seconds: float) -> Any:
    return Now() - timedelta(seconds=seconds)


def _fail() -> int:
    return lifecycle.fail_unknown_types(queries.beat())


def test_a_job_whose_type_no_live_node_knows_fails_after_a_minute() -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(61))
    job = job_rows.a_queued_job()
    counter = telemetry.FINISHED.labels("light", "failed")._value
    before = counter.get()
    assert sweeps.unknown_types() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.attempt, job.error_retryable) == ("failed", "unknown_type", 0, True)
    assert job.error_message and job.finished_at is not None
    assert counter.get() == before + 1
    assert sweeps.unknown_types() == 0


@pytest.mark.parametrize(("up_for", "failed"), [(58, 0), (61, 1)])
def test_a_node_must_have_been_up_for_a_minute(up_for: float, failed: int) -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(up_for))
    job_rows.a_queued_job()
    assert _fail() == failed


@pytest.mark.parametrize("gone", [{"stopped_at": Now()}, None])
def test_with_no_live_node_a_job_is_held(gone: dict[str, Any] | None) -> None:
    """A deployment may be on its way."""
    if gone:
        job_rows.a_node(types=OTHER, started_at=_ago(3600), **gone)
    job = job_rows.a_queued_job()
    assert _fail() == 0
    assert job_rows.read(job.pk).state == "queued"


@pytest.mark.parametrize("knowing", [{"started_at": Now()}, {"started_at": _ago(3600)}, {"stopping_at": Now()}])
def test_one_live_node_that_knows_the_type_is_enough(knowing: dict[str, Any]) -> None:
    """However young it is, and also while it stops."""
    job_rows.a_node(types=OTHER, started_at=_ago(3600))
    job_rows.a_node(**knowing)
    job = job_rows.a_queued_job()
    assert _fail() == 0
    assert job_rows.read(job.pk).state == "queued"


def test_a_young_node_beside_an_old_one_does_not_begin_the_minute_anew() -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(61))
    job_rows.a_node(types=OTHER, started_at=Now())
    job_rows.a_queued_job()
    assert _fail() == 1


def test_a_node_that_knew_the_type_and_stopped_does_not_count() -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(61))
    job_rows.a_node(started_at=_ago(61), stopped_at=Now())
    job_rows.a_queued_job()
    assert _fail() == 1


def test_each_class_is_judged_by_its_own_nodes() -> None:
    """A worker of another class that knows the type cannot run it; one of another class that does not, says nothing."""
    job_rows.a_node("light", types=OTHER, started_at=_ago(61))
    job_rows.a_node("heavy", started_at=_ago(61))
    light, heavy, unserved = (job_rows.a_queued_job(name) for name in ("light", "heavy", "gpu"))
    assert _fail() == 1
    assert [job_rows.read(job.pk).state for job in (light, heavy, unserved)] == ["failed", "queued", "queued"]


def test_only_the_unknown_types_of_a_class_fail() -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(61))
    known, unknown = job_rows.a_queued_job(type=OTHER[0]), job_rows.a_queued_job()
    assert _fail() == 1
    assert (job_rows.read(known.pk).state, job_rows.read(unknown.pk).state) == ("queued", "failed")


def test_a_job_that_waits_for_another_attempt_fails_with_the_same_words() -> None:
    node = job_rows.a_node(started_at=_ago(61))
    job, claimed = job_rows.a_running_job(node)
    lifecycle.release(job.pk, claimed.attempt)
    assert _fail() == 0
    type(node).objects.filter(pk=node.pk).update(types=list(OTHER))
    assert _fail() == 1
    job.refresh_from_db()
    assert (job.state, job.error_code, job.attempt) == ("failed", "unknown_type", 1)


def test_a_running_job_is_left_to_who_runs_it() -> None:
    node = job_rows.a_node(started_at=_ago(61))
    job, _ = job_rows.a_running_job(node)
    type(node).objects.filter(pk=node.pk).update(types=list(OTHER))
    assert _fail() == 0
    assert job_rows.read(job.pk).state == "running"


@pytest.mark.django_db(transaction=True)
def test_a_row_that_another_holds_is_left_for_the_next_time(other: Elsewhere) -> None:
    job_rows.a_node(types=OTHER, started_at=_ago(61))
    held, free = job_rows.a_queued_job(), job_rows.a_queued_job()
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.pk)
        assert other.run(_fail) == 1
    assert (job_rows.read(held.pk).state, job_rows.read(free.pk).state) == ("queued", "failed")
    assert other.run(_fail) == 1
