"""The database holds the transition table against raw SQL too (P37)."""

import itertools

import pytest
from django.db import connection
from django.db.utils import IntegrityError

from jobs.models import ApiClient, Job
from jobs.states import TRANSITIONS, State

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("old", "new"), [(o, n) for o, n in itertools.product(State, State) if o != n])
def test_raw_sql_moves_a_job_exactly_along_the_table(old: State, new: State) -> None:
    job = _job_in(old)
    if new in TRANSITIONS[old]:
        _move(job, new)
        job.refresh_from_db()
        assert job.state == new
    else:
        with pytest.raises(IntegrityError):
            _move(job, new)


def _job_in(state: State) -> Job:
    client = ApiClient.objects.create(name="a")
    job = Job.objects.create(client=client, type="t", cost_class="light", admitted_bound=1, timeout_seconds=1)
    if state is not State.QUEUED:
        path = [state] if state in {State.RUNNING, State.EXPIRED} else [State.RUNNING, state]
        for step in path:
            _move(job, step)
    return job


def _move(job: Job, state: State) -> None:
    running = state is State.RUNNING
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE jobs_job SET state = %s, started_at = coalesce(started_at, now()),
                      lease_until = CASE WHEN %s THEN now() END, hard_deadline = CASE WHEN %s THEN now() END,
                      finished_at = CASE WHEN %s THEN now() END
               WHERE id = %s""",
            [state.value, running, running, state.terminal, job.pk],
        )
