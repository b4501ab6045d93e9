"""How large an artifact may be, how many there may be, and what they may be called."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.storage import storages

from jobs.models import Job
from tests.files import leave, seen
from workers.context import JobContext

# An artifact's row goes by a connection of its own. The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]
Run = Callable[..., Job]


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
