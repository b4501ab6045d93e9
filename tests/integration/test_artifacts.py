"""ctx.artifacts and ctx.open_upload: what a handler leaves is seen only if its attempt is the one that succeeded (P18)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.storage import storages
from django.db import connection, transaction
from django.db.utils import OperationalError

from jobs import lifecycle
from jobs.files import artifacts, stored_files
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job
from jobs.once import StaleAttempt
from jobs.states import State
from tests.files import an_artifact, an_upload, leave, on_their_way, rows_and_files, seen, stored
from tests.job_rows import a_node, a_running_job, claim, later, read, requeue, succeed
from tests.waiting import eventually
from workers import Fail, JobCancelled, JobTimeout, LeaseLost
from workers.artifacts import Artifacts, Database
from workers.context import JobContext

# An artifact's row goes by a connection of its own. The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]
Run = Callable[..., Job]


def test_what_a_handler_leaves_is_seen_once_its_job_has_succeeded(run: Run) -> None:
    during: list[Any] = []

    def handler(ctx: JobContext[Any]) -> str:
        leave(ctx, "b.bin", b"\x00\x01")
        leave(ctx)
        during.append(seen(Job.objects.get()))
        return "done"

    job = run(handler)
    assert job.state == "succeeded"
    assert during == [{}]
    assert seen(job) == {"a.txt": b"left", "b.bin": b"\x00\x01"}
    assert on_their_way() == []


def _raises(error: BaseException) -> Callable[[JobContext[Any]], None]:
    def handler(ctx: JobContext[Any]) -> None:
        leave(ctx)
        raise error

    return handler


def _returns_what_cannot_be_kept(ctx: JobContext[Any]) -> object:
    leave(ctx)
    return {1}


def _raises_in_the_block(ctx: JobContext[Any]) -> None:
    with ctx.artifacts.create("a.txt") as file:
        file.write(b"half")
        raise JobTimeout


@pytest.mark.parametrize(
    "handler",
    [
        _raises(Fail("no", "No.")),
        _raises(JobTimeout()),
        _raises(SystemExit(1)),
        _returns_what_cannot_be_kept,
        _raises_in_the_block,
    ],
)
def test_an_attempt_that_fails_leaves_nothing(run: Run, handler: Any) -> None:
    job = run(handler)
    assert (job.state, seen(job)) == ("failed", {})
    artifacts.prune()
    assert Artifact.objects.count() == 0
    assert on_their_way() == []


def test_after_a_cancel_nothing_is_seen_though_the_handler_returned(run: Run) -> None:
    def handler(ctx: JobContext[Any]) -> str:
        leave(ctx)
        lifecycle.cancel(ctx.job_id)
        return "done"

    job = run(handler)
    assert (job.state, seen(job)) == ("cancelled", {})
    assert artifacts.prune() == 1


def test_of_a_job_that_is_tried_again_only_the_last_attempts_files_are_seen() -> None:
    node = a_node()
    job, first = a_running_job(node)
    gone = an_artifact(first, content=b"first")
    assert lifecycle.retry(job.pk, 1, Outcome(State.FAILED, error_code="x"), 0.0) is State.QUEUED
    second = claim(node)
    assert second is not None
    kept = an_artifact(second, content=b"second")
    succeed(second)
    assert seen(job) == {"a.txt": b"second"}
    assert artifacts.prune() == 1
    assert [one.pk for one in Artifact.objects.all()] == [kept.pk]
    assert str(gone.pk) not in stored("artifacts")


def test_what_a_lost_attempt_left_is_removed_also_while_its_job_waits_for_the_next() -> None:
    """Its child was killed between two files."""
    job, first = a_running_job(a_node())
    an_artifact(first)
    an_artifact(first, "b.txt", stored=False)
    assert lifecycle.lose(job.pk, 1) is State.QUEUED
    assert artifacts.prune() == 1
    Artifact.objects.update(created_at=later(-1000))
    assert artifacts.prune() == 1
    assert read(job.pk).state == "queued"


def test_an_attempt_that_lost_its_job_can_leave_nothing() -> None:
    """Paused for longer than its lease, say: a newer one has the job."""
    node = a_node()
    job, first = a_running_job(node)
    leaving = Artifacts(Database(job.pk, first.attempt))
    with pytest.raises(LeaseLost), leaving.create("late.txt") as file:
        file.write(b"late")
        requeue(job)
        second = claim(node)
    assert second is not None
    succeed(second)
    with pytest.raises(LeaseLost), leaving.create("later.txt") as file:
        file.write(b"later")
    assert seen(job) == {}
    assert rows_and_files() == (0, 0)


def test_a_lease_that_is_lost_while_the_file_is_stored_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    job, first = a_running_job(a_node())
    put, files = stored_files.put, stored("artifacts")

    def slow(name: str, content: Any) -> None:
        put(name, content)
        requeue(job)

    monkeypatch.setattr(stored_files, "put", slow)
    with pytest.raises(LeaseLost), Artifacts(Database(job.pk, first.attempt)).create("a.txt") as file:
        file.write(b"late")
    assert stored("artifacts") == files
    assert seen(job) == {}


def test_a_thread_that_outlives_its_handler_adds_nothing_to_a_job_that_has_ended() -> None:
    """The settle has the row when the file's row is to come: that waits for its commit, sees the end, and gives up."""
    job, claimed = a_running_job(a_node())
    told: list[object] = []

    def late() -> None:
        try:
            with Artifacts(Database(job.pk, claimed.attempt)).create("late.txt") as file:
                file.write(b"late")
        except BaseException as error:
            told.append(type(error))

    thread = threading.Thread(target=late)
    with transaction.atomic():
        succeed(claimed)
        thread.start()
        eventually(somebody_waits_for_us)
    thread.join(10)
    assert told == [LeaseLost]
    assert seen(job) == {}


def somebody_waits_for_us() -> bool:
    """For a lock that this thread's connection holds. (pg_stat_activity would show all of a transaction what it showed first.)"""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        return bool(cursor.fetchone()[0])


def test_a_rollback_of_the_handlers_takes_no_artifact_with_it(run: Run) -> None:
    """Else its file would be left without a row."""

    def handler(ctx: JobContext[Any]) -> None:
        with transaction.atomic():
            leave(ctx)
            transaction.set_rollback(True)

    assert seen(run(handler)) == {"a.txt": b"left"}


def test_under_an_event_loop_files_are_left_and_uploads_read(run: Run) -> None:
    upload = an_upload(b"sent")

    async def handler(ctx: JobContext[Any]) -> None:
        await asyncio.sleep(0)
        with ctx.open_upload(str(upload.pk)) as file:
            leave(ctx, content=file.read())

    assert seen(run(handler)) == {"a.txt": b"sent"}


def test_while_the_database_is_away_a_file_waits_for_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, finish, calls = artifacts.begin, artifacts.finish, []

    def flaky(own_connection: Any, made: Any, tell: Any = begin) -> None:
        calls.append(tell)
        if calls.count(tell) == 1:
            tell(own_connection, made)  # stored, but the answer is lost
            raise OperationalError("gone")
        tell(own_connection, made)

    monkeypatch.setattr(artifacts, "begin", flaky)
    monkeypatch.setattr(artifacts, "finish", lambda connection, made: flaky(connection, made, finish))
    assert seen(run(leave)) == {"a.txt": b"left"}
    assert len(calls) == 4


def test_a_storage_that_takes_nothing_fails_the_attempt_and_the_name_is_free_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = storages["jobs"].save
    failures = [OSError(28, "No space left on device")]

    def flaky(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return save(*arguments)

    def handler(ctx: JobContext[Any]) -> None:
        with pytest.raises(OSError):
            leave(ctx)
        leave(ctx)

    monkeypatch.setattr(storages["jobs"], "save", flaky)
    assert seen(run(handler)) == {"a.txt": b"left"}
    assert Artifact.objects.count() == 1


def test_a_stale_attempt_writes_no_row() -> None:
    job, claimed = a_running_job(a_node())
    requeue(job)
    with pytest.raises(StaleAttempt):
        an_artifact(claimed)


def test_a_cancel_inside_a_block_keeps_nothing(run: Run) -> None:
    def handler(ctx: JobContext[Any]) -> None:
        with ctx.artifacts.create("a") as file:
            file.write(b"x")
            raise JobCancelled

    assert seen(run(handler)) == {}
    assert Artifact.objects.count() == 0
