"""A thousand jobs that fail together do not come back together (P25)."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import connection

from jobs import registry
from jobs.lifecycle import Claim, Outcome
from jobs.models import Job
from jobs.registry import JobType, NoParams
from jobs.states import State
from tests import job_rows
from workers import settling
from workers.retries import Again, Retry, decide

JOBS = 1_000
MOST = JOBS // 20  # in any second
FAILURE = Outcome(State.FAILED, error_code="handler_error", error_message="ConnectionError", retryable=True)


@pytest.fixture(autouse=True)
def same_draws_every_time() -> Iterator[None]:
    """So that chance fails nobody."""
    before = random.getstate()
    random.seed(1)
    yield
    random.setstate(before)


def _fullest_second(waits: list[float]) -> int:
    """Of all seconds, wherever they begin."""
    ordered = sorted(waits)
    return max(sum(start <= wait < start + 1 for wait in ordered[first:]) for first, start in enumerate(ordered))


def _decided(retry: Retry, failures: int) -> list[float]:
    decisions = [
        decide(retry, ConnectionError(), failures=failures, max_attempts=9, remaining_seconds=None) for _ in range(JOBS)
    ]
    return [decision.after_seconds for decision in decisions if isinstance(decision, Again)]


@pytest.mark.parametrize("failures", [1, 2, 5, 8])
def test_whichever_failure_it_is_the_waits_are_spread_thin(failures: int) -> None:
    waits = _decided(Retry(max_attempts=9), failures)
    assert len(waits) == JOBS
    fullest = _fullest_second(waits)
    print(f"fullest second after failure {failures}: {fullest}")
    assert fullest <= MOST


def test_a_tenth_of_the_default_base_would_be_too_thick() -> None:
    """So the tests beside this one can fail."""
    assert _fullest_second(_decided(Retry(max_attempts=9, base_seconds=4), 1)) > MOST


@pytest.fixture
def claims(db: None) -> Iterator[list[Claim]]:
    """A thousand running jobs of a type with the default spacing."""
    registry._types[job_rows.TYPE] = JobType(job_rows.TYPE, print, NoParams, "light", retry=Retry(max_attempts=3))
    node, client = job_rows.a_node(), job_rows.a_client()
    given = {"client": client, "type": job_rows.TYPE, "admitted_bound": 1, "timeout_seconds": 10.0, "max_attempts": 3}
    Job.objects.bulk_create([Job(cost_class="light", **given) for _ in range(JOBS)])
    claimed = [job_rows.claim(node) for _ in range(JOBS)]
    yield [one for one in claimed if one is not None]
    registry._types.pop(job_rows.TYPE, None)


def test_a_thousand_failures_at_once_are_due_again_in_many_different_seconds(claims: list[Claim]) -> None:
    """Through the path that a child takes. The waits count from each one's own end, as if all had ended in one instant."""
    verdicts = [settling.judge(claim, FAILURE, ConnectionError(), None, lambda: False) for claim in claims]
    states = Counter(settling.store(claim, verdict) for claim, verdict in zip(claims, verdicts, strict=True))
    assert states == {State.QUEUED: JOBS}
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT date_trunc('second', available_at),
                      extract(epoch FROM job.available_at - attempt.finished_at)::float8
               FROM jobs_job job JOIN jobs_attempt attempt ON attempt.job_id = job.id
               WHERE job.state = 'queued' AND job.failures = 1 AND attempt.outcome = 'retried'"""
        )
        rows = cursor.fetchall()
    assert len(rows) == JOBS
    by_the_clock = max(Counter(second for second, _ in rows).values())
    fullest = _fullest_second([wait for _, wait in rows])
    print(f"fullest second by the clock: {by_the_clock}; had all ended at once: {fullest}")
    assert by_the_clock <= MOST
    assert fullest <= MOST
