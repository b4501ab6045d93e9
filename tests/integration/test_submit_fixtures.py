"""The fixtures that teams' tests get: what is submitted is captured, or run at once; nothing reaches admission, and no broker is asked."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase
from pydantic import BaseModel

from jobs import broker, registry
from jobs.models import Job, OutboxEntry
from jobs.submit import (
    Admitted,
    Deferred,
    InTransaction,
    InvalidJob,
    Mismatch,
    Rejected,
    Replayed,
    keep_upload,
    submit,
)
from jobs.testing import submitted
from jobs.testing.captured import Submitted
from stack.programs import ROOT
from workers import JobContext, UploadId, job
from workers.testing import upload_id
from workers.testing.at_once import RunAtOnce
from workers.testing.submits import run_at_once

__all__ = ["run_at_once", "submitted"]

PROBE = "probe.sleep"
PARAMS = {"seconds": 0}


class Sum(BaseModel):
    numbers: list[int]


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two job types of a team; one submits the other."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))

    @job("team.sum", cost_class="light", params=Sum)
    def add(ctx: JobContext[Sum]) -> int:
        return sum(ctx.params.numbers)

    @job("team.halves", cost_class="light", params=Sum)
    def halves(ctx: JobContext[Sum]) -> list[Any]:
        found = []
        for half in (ctx.params.numbers[::2], ctx.params.numbers[1::2]):
            answer = submit("team.sum", Sum(numbers=half))
            assert isinstance(answer, Admitted)
            found.append(answer.job.result)
        return found

    @job("team.fails", cost_class="light")
    def fails(ctx: JobContext[Any]) -> None:
        raise ZeroDivisionError


@pytest.fixture(autouse=True)
def nobody_asks_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*given: object) -> None:
        raise AssertionError("the broker was asked")

    monkeypatch.setattr(broker.breaker, "call", asked)


@pytest.fixture
def takes_a_file(types: None) -> None:
    class Table(BaseModel):
        table: UploadId

    @job("team.size", cost_class="light", params=Table)
    def size(ctx: JobContext[Table]) -> int:
        with ctx.open_upload(ctx.params.table) as file:
            return len(file.read())


# ── Captured ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_asked_for_is_listed_without_a_database(submitted: Submitted) -> None:
    answer = submit(PROBE, PARAMS, key="k", labels={"order": "7"}, client="reports", timeout_seconds=3)
    assert isinstance(answer, Admitted)
    assert (answer.job.type, answer.job.state, answer.job.cost_class) == (PROBE, "queued", "light")
    (asked,) = submitted.jobs
    assert (asked.type, asked.params, asked.key, asked.labels) == (PROBE, PARAMS, "k", {"order": "7"})
    assert (asked.client, asked.timeout_seconds) == ("reports", 3)


@pytest.mark.django_db
def test_nothing_reaches_admission_or_the_outbox(submitted: Submitted) -> None:
    submit(PROBE, PARAMS)
    submit(PROBE, PARAMS, on_commit=True)
    assert not (Job.objects.exists() or OutboxEntry.objects.exists())
    assert len(submitted.jobs) == 2


def test_what_is_no_job_is_raised_as_at_the_door(submitted: Submitted) -> None:
    with pytest.raises(InvalidJob, match="seconds"):
        submit(PROBE, {})
    assert submitted.jobs == []


def test_a_test_may_have_the_class_full(submitted: Submitted) -> None:
    submitted.refuse("queue_full", retry_after_seconds=7)
    answer = submit(PROBE, PARAMS)
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.retry_after_seconds) == ("queue_full", 7)
    assert (submitted.jobs, [asked.type for asked in submitted.refused]) == ([], [PROBE])
    submitted.accept()
    assert isinstance(submit(PROBE, PARAMS), Admitted)


def test_a_key_brings_the_same_job(submitted: Submitted) -> None:
    first, again = submit(PROBE, PARAMS, key="k"), submit(PROBE, PARAMS, key="k")
    assert isinstance(first, Admitted)
    assert isinstance(again, Replayed)
    assert again.job is first.job
    assert len(submitted.jobs) == 1
    with pytest.raises(Mismatch):
        submit(PROBE, {"seconds": 1}, key="k")


def test_a_file_that_params_name_is_taken_as_it_is_without_a_database(takes_a_file: None, submitted: Submitted) -> None:
    kept, given = keep_upload(b"abc"), upload_id()
    assert [type(submit("team.size", {"table": table})) for table in (kept, given)] == [Admitted, Admitted]
    assert [asked.params["table"] for asked in submitted.jobs] == [kept, given]
    with pytest.raises(InvalidJob, match="There is no upload of that id"):
        submit("team.size", {"table": "no id"})


@pytest.mark.django_db
def test_a_submit_in_a_transaction_is_refused_in_tests_too(submitted: Submitted) -> None:
    with transaction.atomic(), pytest.raises(InTransaction):
        submit(PROBE, PARAMS)
    assert submitted.jobs == []


@pytest.mark.django_db
def test_what_a_transaction_asked_for_is_listed_unless_it_was_rolled_back(submitted: Submitted) -> None:
    with transaction.atomic():
        submit(PROBE, {"seconds": 1}, on_commit=True)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            submit(PROBE, {"seconds": 2}, on_commit=True)
            raise ZeroDivisionError
    assert [asked.params for asked in submitted.jobs] == [{"seconds": 1}]


@pytest.mark.django_db(transaction=True)
def test_a_key_of_another_request_fails_no_commit(submitted: Submitted) -> None:
    submit(PROBE, {"seconds": 1}, key="k")
    with transaction.atomic():
        submit(PROBE, {"seconds": 2}, key="k", on_commit=True)
    assert ([asked.params for asked in submitted.jobs], len(submitted.refused)) == ([{"seconds": 1}], 1)


@pytest.mark.django_db(transaction=True)
def test_it_is_so_with_real_commits_too(submitted: Submitted) -> None:
    with transaction.atomic():
        assert isinstance(submit(PROBE, {"seconds": 1}, on_commit=True), Deferred)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        submit(PROBE, {"seconds": 2}, on_commit=True)
        raise ZeroDivisionError
    assert [asked.params for asked in submitted.jobs] == [{"seconds": 1}]


# ── Run at once ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_handler_has_run_when_the_submit_returns(types: None, run_at_once: RunAtOnce) -> None:
    answer = submit("team.sum", Sum(numbers=[1, 2, 3]))
    assert isinstance(answer, Admitted)
    assert (answer.job.state, answer.job.result) == ("succeeded", 6)
    assert [ran.result for ran in run_at_once.ran] == [6]
    assert [asked.type for asked in run_at_once.jobs] == ["team.sum"]


def test_the_handler_reads_what_was_kept_and_what_the_test_gives(takes_a_file: None, run_at_once: RunAtOnce) -> None:
    run_at_once.uploads[upload_id()] = b"12345"
    for table in (keep_upload(b"abc"), keep_upload(BytesIO(b"abcd")), upload_id()):
        submit("team.size", {"table": table})
    assert [ran.result for ran in run_at_once.ran] == [3, 4, 5]


def test_a_handler_that_submits_finds_its_jobs_done(types: None, run_at_once: RunAtOnce) -> None:
    answer = submit("team.halves", Sum(numbers=[1, 10, 2, 20]))
    assert isinstance(answer, Admitted)
    assert answer.job.result == [3, 30]
    assert [asked.type for asked in run_at_once.jobs] == ["team.halves", "team.sum", "team.sum"]


def test_a_handler_that_fails_fails_its_job_and_not_the_submit(types: None, run_at_once: RunAtOnce) -> None:
    answer = submit("team.fails")
    assert isinstance(answer, Admitted)
    assert (answer.job.state, answer.job.error_code) == ("failed", "handler_error")
    assert isinstance(run_at_once.ran[0].exception, ZeroDivisionError)


@pytest.mark.django_db
def test_a_job_of_a_transaction_runs_when_that_is_committed(types: None, run_at_once: RunAtOnce) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        with transaction.atomic():
            submit("team.sum", Sum(numbers=[1]), on_commit=True)
        assert run_at_once.ran == []
    assert [ran.result for ran in run_at_once.ran] == [1]
    assert len(run_at_once.jobs) == 1


# ── In a team's own suite ────────────────────────────────────────────────────────────────────────────────────────────

CONFTEST = 'pytest_plugins = ["jobs.testing", "workers.testing.submits"]\n'
TEAMS = """
from jobs.submit import submit

def test_captured(submitted):
    submit("probe.sleep", {"seconds": 0})
    assert submitted.jobs[0].params == {"seconds": 0}

def test_run(run_at_once):
    assert submit("probe.sleep", {"seconds": 0}).job.state == "succeeded"
"""


def test_a_teams_own_suite_needs_two_names_and_no_server(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_team.py").write_text(TEAMS)
    nowhere = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "REDIS_URL": "redis://127.0.0.1:1/0"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ds", "project.settings", str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "WEIGHBRIDGE_DATA_DIR": str(tmp_path / "data"), **nowhere},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_nothing_that_runs_needs_pytest() -> None:
    """The plugins are for tests only."""
    program = "import sys; sys.modules['pytest'] = None; import django; django.setup(); import jobs.submit, workers, workers.tasks"
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
