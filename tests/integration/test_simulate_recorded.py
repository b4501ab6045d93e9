"""`manage.py simulate --recorded`: the jobs that this installation had, as they came."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from jobs import lifecycle
from jobs.models import Job, WorkerNode
from tests import job_rows
from tests.integration.test_fair_order import admit, run_one
from workers.simulating import recorded
from workers.simulating.traces import Manner

pytestmark = pytest.mark.django_db


def test_jobs_that_ran_come_as_they_were_accepted_with_their_run_times(node: WorkerNode) -> None:
    for client in "ab":
        admit(client)
        run_one(node)
    admit("c")  # has not run
    Job.objects.filter(client__name="b").update(run_seconds=3)
    found = recorded.jobs(Manner())
    one, other = found.jobs
    assert (found.supposed, found.left_out) == (0, 0)
    assert (one.client, one.at) == (job_rows.a_client("a").name, 0)
    assert (other.client, other.run_seconds) == (job_rows.a_client("b").name, 3)
    assert other.at > 0


def test_jobs_that_never_ran_count_as_their_type_does_or_are_left_out_and_that_is_said(node: WorkerNode) -> None:
    admit("a")
    run_one(node)
    Job.objects.update(run_seconds=3)
    job_rows.a_queued_job()
    job_rows.a_queued_job(type="tests.known", expected_seconds=2.0)
    job_rows.a_queued_job(type="tests.unknown")
    Job.objects.filter(state="queued").update(start_by=job_rows.later(-1))
    assert lifecycle.expire() == 3
    found = recorded.jobs(Manner())
    assert sorted(job.run_seconds for job in found.jobs) == [2, 3, 3]
    assert (found.supposed, found.left_out) == (2, 1)
    said = StringIO()
    call_command("simulate", "--recorded", stdout=StringIO(), stderr=said)
    assert "Of the recorded jobs 2 never ran" in said.getvalue()
    assert "Left out: 1 that never ran" in said.getvalue()


def test_an_installation_that_has_run_nothing_is_told_so() -> None:
    with pytest.raises(CommandError, match="--recorded is '', but must be asked of an installation that has run jobs"):
        call_command("simulate", "--recorded", stdout=StringIO())
