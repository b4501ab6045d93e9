"""Whatever a handler does to its database connection, its job is settled and the next one starts clean."""

import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

from jobs import lifecycle, telemetry
from jobs.lifecycle import Outcome
from jobs.models import ApiClient, Job
from jobs.states import State
from tests import job_rows
from tests.integration.attempts import Handler
from tests.second_connections import Elsewhere, backend_pid
from workers import settling
from workers.context import JobContext

# The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]


def _leave_an_atomic_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    ApiClient.objects.create(name="half done")
    return "returned"


def _leave_a_broken_atomic_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1/0")
    except DatabaseError:
        pass
    return "returned"


def _leave_autocommit_off(ctx: JobContext[Any]) -> str:
    transaction.set_autocommit(False)
    ApiClient.objects.create(name="half done")
    return "returned"


def _leave_two_atomics_open(ctx: JobContext[Any]) -> str:
    transaction.atomic().__enter__()
    return _leave_an_atomic_open(ctx)


def _leave_a_plain_begin_open(ctx: JobContext[Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO jobs_apiclient (name) VALUES ('half done')")
    return "returned"


def _leave_a_closed_connection(ctx: JobContext[Any]) -> str:
    connection.close()
    return "returned"


@pytest.mark.parametrize(
    "handler",
    [
        _leave_an_atomic_open,
        _leave_two_atomics_open,
        _leave_a_broken_atomic_open,
        _leave_autocommit_off,
        _leave_a_closed_connection,
        _leave_a_plain_begin_open,
    ],
)
def test_a_transaction_that_a_handler_left_open_does_not_swallow_the_settle(
    run: Callable[..., Job], other: Elsewhere, handler: Handler
) -> None:
    try:
        job = run(handler)
        seen_by_others = other.run(lambda: job_rows.read(job.pk))
        assert (seen_by_others.state, seen_by_others.result) == ("succeeded", "returned")
        assert not other.run(ApiClient.objects.filter(name="half done").exists)
        assert connection.get_autocommit()
        assert lifecycle.settle(job.pk, 1, Outcome(State.SUCCEEDED)) is None  # and the connection works
    finally:
        connection.close()


@pytest.mark.parametrize("broken_first", ["terminated", "closed"])
def test_a_connection_that_dies_inside_a_job_costs_only_a_second_settle(
    run: Callable[..., Job], other: Elsewhere, broken_first: str
) -> None:
    """P34. The connection is the runner's own: the handler's is another."""
    runners, pid = connections["default"], backend_pid()

    def handler(ctx: JobContext[Any]) -> str:
        if broken_first == "closed":
            runners.connection.close()  # under Django's feet
        else:
            assert other.run(lambda: _terminate(pid))
        return "done"

    job = run(handler)
    assert (job.state, job.result) == ("succeeded", "done")


def _terminate(pid: int) -> bool:
    """And wait until it is gone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return bool(cursor.fetchone()[0])


def test_a_dead_connection_does_not_fail_a_job_that_reports_progress(run: Callable[..., Job], other: Elsewhere) -> None:
    """Progress is a courtesy."""

    def handler(ctx: JobContext[Any]) -> str:
        pid = backend_pid()
        assert other.run(lambda: _terminate(pid))
        ctx.progress(0.5)
        return "done"

    assert run(handler).state == "succeeded"


def test_a_settle_is_retried_until_the_database_is_back(run: Callable[..., Job], other: Elsewhere) -> None:
    """Two refused connections, then the database answers."""
    job, waits = _settled_through_an_outage(run, drop=lambda runners: runners.connection.close())
    assert job.state == "succeeded"
    assert waits >= 2


def test_a_settle_is_retried_also_when_the_handler_closed_its_connection(run: Callable[..., Job]) -> None:
    """As a long handler should, before an hour without queries."""
    job, _ = _settled_through_an_outage(run, drop=lambda runners: runners.close())
    assert job.state == "succeeded"


def test_what_becomes_of_a_job_is_decided_once_however_long_the_database_is_away(run: Callable[..., Job]) -> None:
    """A decision spends from the budget, draws a backoff and is counted."""
    again = telemetry.RETRIES.labels("again", "")._value
    before = again.get()
    job, waits = _settled_through_an_outage(
        run, drop=lambda runners: runners.connection.close(), error=ConnectionError(), max_attempts=3
    )
    assert (job.state, job.failures) == ("queued", 1)
    assert waits >= 2
    assert again.get() == before + 1


def _settled_through_an_outage(
    run: Callable[..., Job], drop: Callable[[Any], None], error: Exception | None = None, **fields: Any
) -> tuple[Job, int]:
    """A handler at whose end nobody listens on the database's port for this thread; the job and the waits it took."""
    runners = connections["default"]
    real = runners.settings_dict
    waited = 0

    def sleep(seconds: float) -> None:
        nonlocal waited
        waited += 1
        if waited == 2:
            runners.settings_dict = real

    with socket.socket() as nobody, pytest.MonkeyPatch.context() as patch:
        nobody.bind(("127.0.0.1", 0))
        patch.setattr(settling, "time", SimpleNamespace(sleep=sleep))

        def handler(ctx: JobContext[Any]) -> str:
            runners.settings_dict = {**real, "HOST": "127.0.0.1", "PORT": nobody.getsockname()[1]}
            drop(runners)
            if error is not None:
                raise error
            return "done"

        try:
            return run(handler, **fields), waited
        finally:
            runners.settings_dict = real


@pytest.mark.parametrize(
    "statement",
    [
        "SET search_path = pg_catalog",
        "SET default_transaction_read_only = on",
        "SET statement_timeout = '1ms'",
        "CREATE TEMP TABLE jobs_job (id integer)",
        "SET ROLE NONE; SET lock_timeout = '1ms'",
    ],
)
def test_what_a_handler_sets_on_its_connection_meets_neither_the_settle_nor_the_next_job(
    run: Callable[..., Job], statement: str
) -> None:
    def handler(ctx: JobContext[Any]) -> str:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        return "done"

    assert run(handler).state == "succeeded"
    assert run(lambda ctx: ApiClient.objects.count() >= 0).result is True


def test_a_handler_that_queries_nothing_opens_no_connection(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: connection.connection is None).result is True


def test_a_database_that_only_reads_for_a_while_costs_no_result(run: Callable[..., Job]) -> None:
    """As in a failover: it answers, but with no error that Django calls operational."""
    runners = connections["default"]

    def handler(ctx: JobContext[Any]) -> str:
        with runners.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")  # until the settle connects anew
        return "done"

    job = run(handler)
    assert (job.state, job.result) == ("succeeded", "done")


@pytest.fixture(scope="module")
def second_database() -> Iterator[None]:
    """There before the test's own set-up, which looks at what databases there are."""
    connections.databases["reports"] = {**connections.databases["default"], "TEST": {"MIRROR": "default"}}
    yield
    connections["reports"].close()
    del connections["reports"]
    del connections.databases["reports"]


@pytest.mark.usefixtures("second_database")
@pytest.mark.django_db(transaction=True, databases=["default", "reports"])
def test_a_transaction_left_open_on_a_second_database_ends_with_its_job(run: Callable[..., Job]) -> None:

    def leaves_it(ctx: JobContext[Any]) -> bool:
        transaction.atomic(using="reports").__enter__()
        ApiClient.objects.using("reports").create(name="half done")
        return connections["reports"].in_atomic_block

    def finds_nothing(ctx: JobContext[Any]) -> list[bool]:
        clients = ApiClient.objects.using("reports").filter(name="half done")
        return [connections["reports"].in_atomic_block, clients.exists()]

    assert run(leaves_it).result is True
    assert run(finds_nothing).result == [False, False]
