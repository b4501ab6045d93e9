"""`manage.py plan` out of this installation's own jobs: what is read, how much of it is enough, and what it says."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from jobs import classes, history
from jobs.models import Attempt
from jobs.states import State
from tests.job_rows import a_finished_job
from workers.planning import composing

pytestmark = pytest.mark.django_db

MIB = 2**20
NOW = timezone.now()


def _ran(count: int, run_seconds: float, cost_class: str = "light") -> None:
    """Jobs that ended, one accepted each second, an attempt of 100, 101, … MiB each."""
    jobs = [
        a_finished_job(
            cost_class=cost_class,
            accepted_at=NOW - timedelta(seconds=1000 - number),
            finished_at=NOW - timedelta(seconds=count - number),
            run_seconds=run_seconds,
            cpu_seconds=run_seconds / 2,
        )
        for number in range(count)
    ]
    Attempt.objects.bulk_create(
        Attempt(
            job=job,
            number=1,
            pid=1,
            process_started=1,
            finished_at=NOW,
            run_seconds=run_seconds,
            peak_rss_bytes=(100 + n) * MIB,
        )
        for n, job in enumerate(jobs)
    )


def _plan(*arguments: str) -> str:
    output = StringIO()
    call_command("plan", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


def _json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(_plan(*arguments, "--format", "json")))


def test_nineteen_runs_are_too_few_and_it_is_said_how_many_there_are() -> None:
    _ran(19, 0.2)
    found = _json("--cost-class", "light")
    assert found == {"cost_class": "light", "sources": ["Class light has 19 runs of at least 20 in the last 7 days."]}
    assert "19 runs of at least 20" in _plan("--cost-class", "light")


def test_twenty_runs_are_a_plan_with_their_rate_run_time_and_memory() -> None:
    _ran(100, 0.25)
    found = _json("--cost-class", "light", "--machine-memory-mib", "4096")
    assert found["asked"]["rate"] == pytest.approx(100 / 300)  # all of them within five minutes
    assert found["asked"]["service_seconds"] == pytest.approx(0.25)
    assert found["asked"]["wait_target_seconds"] == classes.get("light").max_wait_seconds
    assert found["memory"]["child_mib"] == 195  # of 100 to 199 MiB the 95th of a hundred
    assert found["meets"] is True
    assert found["played"]["p95_wait_seconds"] >= 0
    assert "Jobs that were refused are not in it." in found["sources"][0]
    assert "As the class is set now, with 2 processes and 100 waiting:" in found["sources"][-1]


def test_numbers_that_are_given_come_before_those_of_the_jobs() -> None:
    _ran(30, 0.25)
    found = _json(
        "--cost-class", "light", "--rate", "8", "--service-seconds", "0.2", "--slots", "2", "--max-waiting", "20"
    )
    assert found["asked"]["rate"] == 8
    assert found["refusal_share"] == pytest.approx(0.00165054, abs=1e-6)
    assert found["played"] is None  # the recorded run times are not those that were asked about


def test_without_any_number_every_class_has_its_plan_and_what_they_need_together_is_told() -> None:
    _ran(40, 2.0)
    _ran(40, 30.0, cost_class="heavy")
    found = _json("--cores", "2", "--machine-memory-mib", "512")
    assert set(found["classes"]) == set(classes.declared())
    assert any("Together the classes have" in sentence for sentence in found["together"])
    text = _plan()
    assert "Class light" in text
    assert "Class heavy" in text


def test_jobs_of_other_classes_older_ones_and_those_that_never_ran_are_not_counted() -> None:
    _ran(25, 1.0, cost_class="heavy")
    _ran(19, 1.0)
    a_finished_job(State.EXPIRED)
    a_finished_job(run_seconds=1.0, finished_at=NOW - timedelta(days=8))
    assert len(history.of_class("light").run_seconds) == 19


def test_the_newest_jobs_are_read_up_to_a_bound_in_two_queries_by_their_indexes(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(history, "MOST_JOBS", 30)
    _ran(60, 1.0)
    with django_assert_num_queries(2) as asked:
        found = history.of_class("light")
    assert len(found.run_seconds) == len(found.peak_rss_bytes) == 30
    assert min(found.peak_rss_bytes) == 130 * MIB  # the newest thirty
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        plans = []
        for query in asked.captured_queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            plans.append("\n".join(row[0] for row in cursor.fetchall()))
    assert "job_drain" in plans[0]
    assert "attempt_number_once" in plans[1] or "jobs_attempt_job_id" in plans[1]


def test_the_busiest_five_minutes_count_and_not_the_quiet_days() -> None:
    quiet = [NOW - timedelta(hours=n) for n in range(1, 100)]
    rush = [NOW - timedelta(days=2, seconds=n) for n in range(600)]
    found = history.History(sorted([*quiet, *rush]), [1.0], 0.0, [])
    assert found.busiest_rate == pytest.approx(1.0, rel=0.01)
    assert history.History([], [], 0.0, []).busiest_rate is None


def test_a_database_that_is_away_is_one_sentence_and_given_numbers_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db.utils import OperationalError

    def away(name: str) -> Any:
        raise OperationalError("connection refused\nmore of it")

    monkeypatch.setattr(composing, "recorded", away)
    with pytest.raises(
        CommandError, match="The database, which has the class's own jobs, cannot be asked: connection refused"
    ):
        _plan("--cost-class", "light")
    assert _json("--rate", "8", "--service-seconds", "0.2", "--slots", "2", "--max-waiting", "20")["meets"]
