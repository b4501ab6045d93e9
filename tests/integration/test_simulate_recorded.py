"""`manage.py simulate --recorded`: the jobs that this installation had, as they came."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

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
    one, other = recorded.jobs(Manner())
    assert (one.client, one.at) == (job_rows.a_client("a").name, 0)
    assert (other.client, other.run_seconds) == (job_rows.a_client("b").name, 3)
    assert other.at > 0


def test_an_installation_that_has_run_nothing_is_told_so() -> None:
    with pytest.raises(CommandError, match="--recorded is '', but must be asked of an installation that has run jobs"):
        call_command("simulate", "--recorded", stdout=StringIO())
