"""ctx.artifacts and ctx.open_upload: what a handler leaves is seen only if its attempt is the one that succeeded (P18)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.storage import storages
from django.db import connection, transaction
from django.db.utils import OperationalError

from jobs import lifecycle, sweeps
from jobs.files import artifacts, stored_files
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job
from jobs.once import StaleAttempt
from jobs.states import State
from tests import job_rows
from tests.files import an_artifact, an_upload, on_their_way, stored
from tests.job_rows import a_node, a_running_job, claim, later, read, requeue, succeed
from tests.waiting import eventually
from workers import Fail, JobCancelled, JobTimeout, LeaseLost
from workers.artifacts import Artifacts, Database
from workers.context import JobContext

# An artifact's row goes by a connection of its own. The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]
Run = Callable[..., Job]


def seen(job: Job) -> dict[str, bytes]:
    """What its caller would get, by name."""
    contents = {}
    for one in artifacts.of_job(read(job.pk)):
        with stored_files.opened(one.file_name) as file:
            contents[one.name] = file.read()
    return contents


def rows_and_files() -> tuple[int, int]:
    """How many there are, whoever may see them; the files are those that a row names."""
    names = {str(pk) for pk in Artifact.objects.values_list("pk", flat=True)}
    return len(names), len(names & stored("artifacts"))


def leave(ctx: JobContext[Any], name: str = "a.txt", content: bytes = b"left") -> None:
    with ctx.artifacts.create(name, "text/plain") as file:
        file.write(content)


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


# ── How large, and under what name ───────────────────────────────────────────────────────────────────────────────────


def test_a_file_as_large_as_it_may_be_is_kept_and_a_larger_one_is_the_callers_to_read(run: Run, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_ARTIFACT_BYTES = 10
    assert seen(run(lambda ctx: leave(ctx, content=b"x" * 10))) == {"a.txt": b"x" * 10}
    job = run(lambda ctx: leave(ctx, content=b"x" * 11))
    assert (job.state, job.error_code) == ("failed", "artifact_too_large")
    assert "at most 10 bytes" in job.error_message


def test_all_files_of_an_attempt_have_a_size_too(run: Run, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES = 10

    def handler(ctx: JobContext[Any], last: bytes = b"x" * 6) -> None:
        leave(ctx, "a", b"x" * 4)
        leave(ctx, "b", last)

    assert len(seen(run(handler))) == 2
    assert run(lambda ctx: handler(ctx, b"x" * 7)).error_code == "artifact_too_large"


def test_what_the_storage_did_not_take_uses_nothing_up(
    run: Run, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES = 10
    save = storages["jobs"].save
    failures = [OSError(5, "Input/output error")] * 3

    def flaky(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return save(*arguments)

    def handler(ctx: JobContext[Any]) -> None:
        for _ in range(3):
            with pytest.raises(OSError):
                leave(ctx, content=b"x" * 10)
        leave(ctx, content=b"x" * 10)

    monkeypatch.setattr(storages["jobs"], "save", flaky)
    assert seen(run(handler)) == {"a.txt": b"x" * 10}


def test_two_that_are_written_at_once_share_what_is_left(run: Run, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES = 10

    def handler(ctx: JobContext[Any]) -> None:
        with ctx.artifacts.create("a") as one, ctx.artifacts.create("b") as other:
            one.write(b"x" * 6)
            other.write(b"x" * 6)

    assert run(handler).error_code == "artifact_too_large"


def test_there_is_an_end_to_how_many(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.artifacts.MOST_FILES", 2)

    def handler(ctx: JobContext[Any]) -> None:
        for number in range(3):
            leave(ctx, str(number))

    job = run(handler)
    assert job.error_code == "too_many_artifacts"


ODD_NAMES = [
    "",
    ".",
    "..",
    ".hidden",
    "../x",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "a\0b",
    "a\nb",
    "a\rb",
    "x" * 101,
    " a",
    "a ",
]
ODD_NAMES += ["a\u202eb", "\ud800", "a\u2028b", "a\x7f"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_could_be_a_trick_is_refused(run: Run, name: str) -> None:
    def handler(ctx: JobContext[Any]) -> None:
        with pytest.raises(ValueError, match="Artifact name"):
            leave(ctx, name)

    job = run(handler)
    assert job.state == "succeeded"
    assert seen(job) == {}


@pytest.mark.parametrize(
    "name", ["a", "x" * 100, "Bericht für März.csv", "図.png", "a..b", 'a"b;c', "a%2Fb", "~", "-rf"]
)
def test_any_other_name_is_taken(run: Run, name: str) -> None:
    assert list(seen(run(lambda ctx: leave(ctx, name)))) == [name]


def test_two_ways_to_write_one_letter_are_one_name(run: Run) -> None:
    def handler(ctx: JobContext[Any]) -> None:
        leave(ctx, "u\u0308")
        with pytest.raises(ValueError, match="already"):
            leave(ctx, "\u00fc")

    assert list(seen(run(handler))) == ["\u00fc"]


@pytest.mark.parametrize(
    "content_type", ["", "png", "text/plain\r\nX: y", "a/b/c", "text/plain; charset=x; y=z", "tëxt/plain"]
)
def test_a_media_type_that_is_none_is_refused(run: Run, content_type: str) -> None:
    def handler(ctx: JobContext[Any]) -> None:
        with pytest.raises(ValueError, match="is no media type"), ctx.artifacts.create("a", content_type):
            pass

    assert run(handler).state == "succeeded"


# ── Uploads ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_upload_is_read_by_the_jobs_of_its_client_alone(run: Run) -> None:
    mine, theirs = an_upload(b"mine"), an_upload(b"theirs", client=job_rows.a_client("another"))

    def handler(ctx: JobContext[Any]) -> str:
        with ctx.open_upload(str(mine.pk)) as file:
            read = file.read().decode()
        with pytest.raises(Fail, match="upload_gone"):
            ctx.open_upload(str(theirs.pk))
        return read

    assert run(handler).result == "mine"


@pytest.mark.parametrize("upload_id", ["", "../secret-key", "00000000-0000-7000-8000-000000000000"])
def test_an_upload_that_is_none_fails_the_job_in_a_sentence(run: Run, upload_id: str) -> None:
    job = run(lambda ctx: ctx.open_upload(upload_id))
    assert (job.state, job.error_code) == ("failed", "upload_gone")


def test_a_row_without_its_file_fails_the_job_that_wants_it_and_nothing_else(run: Run) -> None:
    upload = an_upload()
    stored_files.remove(upload.file_name)
    assert run(lambda ctx: ctx.open_upload(str(upload.pk))).error_code == "upload_gone"


# ── Their end ────────────────────────────────────────────────────────────────────────────────────────────────────────


def a_job_with_a_file() -> Job:
    job, claimed = a_running_job(a_node())
    an_artifact(claimed)
    succeed(claimed, "result")
    return job


def test_files_go_with_the_result(settings: Any) -> None:
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = 100
    job = a_job_with_a_file()
    assert (sweeps.prune(), sweeps.prune_files()) == (0, 0)
    assert seen(job) == {"a.txt": b"content"}
    settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS = -1
    assert (sweeps.prune(), sweeps.prune_files()) == (1, 1)
    assert seen(job) == {}
    assert rows_and_files() == (0, 0)
    assert read(job.pk).state == "succeeded"


def test_a_job_is_not_pruned_before_its_files(settings: Any) -> None:
    """A row that went first would leave a file that nobody finds."""
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = -1
    job = a_job_with_a_file()
    sweeps.prune()
    assert Job.objects.filter(pk=job.pk).exists()
    assert sweeps.prune_files() == 1
    sweeps.prune()
    assert not Job.objects.filter(pk=job.pk).exists()


def test_what_runs_and_what_is_seen_is_left_alone() -> None:
    seen_one = a_job_with_a_file()
    _, claimed = a_running_job(a_node())
    an_artifact(claimed)
    an_artifact(claimed, "b.txt", stored=False)
    assert artifacts.prune() == 0
    assert seen(seen_one) == {"a.txt": b"content"}


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
