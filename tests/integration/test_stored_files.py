"""The storage of files: synced, away, read while it is pruned; and its sweep, which gets on past what stays and through a run that is killed."""

import os
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from jobs.files import artifacts, stored_files, uploads
from jobs.models import Artifact, Job, Upload
from tests.files import an_artifact, an_upload, stored
from tests.in_process_api import BASE, InProcessApi, a_probe_node, claim_probe, problem
from tests.job_rows import a_node, a_running_job, requeue, succeed

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """What comes in the middle of a run, and is not to be caught."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "READ_AT_ONCE", 2)
    monkeypatch.setattr(stored_files, "REMOVED_AT_ONCE", 2)


def old_uploads(number: int) -> list[Upload]:
    """All of one instant, so that the sweep goes by their ids, as they stand here."""
    instant = datetime.now(UTC)
    return sorted((an_upload(created_at=instant) for _ in range(number)), key=lambda one: one.pk)


@pytest.fixture
def over(settings: Any) -> None:
    """Every upload is past its time, and the door's minute more."""
    settings.WEIGHBRIDGE_KEEP_UPLOADS_SECONDS = -uploads.ADMISSION_SECONDS - 60


@pytest.fixture
def asked_to_remove(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that the storage was asked to remove."""
    names: list[str] = []
    delete = storages["jobs"].delete

    def told(name: str) -> None:
        names.append(name)
        delete(name)

    monkeypatch.setattr(storages["jobs"], "delete", told)
    return names


def refuse(monkeypatch: pytest.MonkeyPatch, error: BaseException, names: list[str]) -> None:
    """The storage raises when it is to remove one of these."""
    delete = storages["jobs"].delete

    def flaky(name: str) -> None:
        if name in names:
            raise error
        delete(name)

    monkeypatch.setattr(storages["jobs"], "delete", flaky)


def test_one_run_goes_on_past_the_first_rows(small: None, over: None) -> None:
    old_uploads(7)
    assert uploads.prune() == 7


def test_what_cannot_be_removed_keeps_nothing_younger(small: None, over: None, monkeypatch: pytest.MonkeyPatch) -> None:
    old = old_uploads(7)
    refuse(monkeypatch, ConnectionError(), [upload.file_name for upload in old[:4]])
    assert uploads.prune() == 3
    assert set(Upload.objects.values_list("pk", flat=True)) == {upload.pk for upload in old[:4]}


def test_a_live_jobs_uploads_keep_nothing_younger(small: None, over: None) -> None:
    old = old_uploads(5)
    a_running_job(a_node(), params={"files": [str(upload.pk) for upload in old[:3]]})
    assert uploads.prune() == 2
    assert set(Upload.objects.values_list("pk", flat=True)) == {upload.pk for upload in old[:3]}


def test_what_a_killed_run_has_removed_has_no_rows_any_more(
    small: None, over: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = old_uploads(5)
    refuse(monkeypatch, Killed(), [old[4].file_name])
    with pytest.raises(Killed):
        uploads.prune()
    assert [upload.pk for upload in Upload.objects.all()] == [old[4].pk]


def test_a_run_ends_with_its_time_and_keeps_what_it_did(
    over: None, monkeypatch: pytest.MonkeyPatch, asked_to_remove: list[str]
) -> None:
    old = old_uploads(3)
    monkeypatch.setattr(stored_files, "REMOVING_SECONDS", 0)
    assert uploads.prune() == 1
    assert asked_to_remove == [old[0].file_name]
    assert uploads.prune() == 1


def test_artifacts_too_go_a_few_at_a_time_past_those_that_stay(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    job, claimed = a_running_job(a_node())
    left = sorted((an_artifact(claimed, f"{number}.txt") for number in range(7)), key=lambda one: one.pk)
    requeue(job)
    refuse(monkeypatch, ConnectionError(), [left[0].file_name, left[1].file_name])
    assert artifacts.prune() == 5
    assert Artifact.objects.count() == 2


# ── Before anybody is told ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_and_its_name_are_on_the_disk_before_its_row_says_that_it_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def told(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), Upload.objects.filter(stored_at=None).count()))

    monkeypatch.setattr(os, "fsync", told)
    path = storages["jobs"].path(an_upload().file_name)
    folder = os.path.dirname(path)
    assert synced == [(path, 1), (folder, 1), (os.path.dirname(folder), 1)]


def test_a_disk_that_fails_while_it_is_synced_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored("uploads")

    def fails(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    problem(InProcessApi().send("POST", f"{BASE}/uploads", b"x", "text/csv"), 503, "unavailable", retryable=True)
    assert (Upload.objects.count(), stored("uploads")) == (0, before)


class OfItsLibrary(Exception):
    """As a client of S3 raises."""


def test_a_storage_that_fails_half_way_in_its_own_words_is_503_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, save = stored("uploads"), storages["jobs"].save

    def half(name: str, content: Any) -> str:
        save(name, ContentFile(b"ha"))
        raise OfItsLibrary

    monkeypatch.setattr(storages["jobs"], "save", half)
    problem(InProcessApi().send("POST", f"{BASE}/uploads", b"half", "text/csv"), 503, "unavailable", retryable=True)
    assert (Upload.objects.count(), stored("uploads")) == (0, before)


# ── While it is read ─────────────────────────────────────────────────────────────────────────────────────────────────


def a_file_of(api: InProcessApi) -> tuple[Artifact, str]:
    """And its address."""
    node = a_probe_node()
    job_id = api.submit()
    artifact = an_artifact(claimed := claim_probe(node), content=b"x" * 500_000)
    succeed(claimed)
    return artifact, f"/jobs/{job_id}/artifacts/{artifact.name}"


def test_a_file_that_is_pruned_while_somebody_takes_it_is_taken_whole() -> None:
    api = InProcessApi()
    artifact, address = a_file_of(api)
    answer = api.get(address)
    pieces = iter(answer.streaming_content)
    first = next(pieces)
    Job.objects.update(result_expired=True)
    assert artifacts.prune() == 1
    assert str(artifact.pk) not in stored("artifacts")
    assert len(first + b"".join(pieces)) == artifact.size_bytes
    problem(api.get(address), 410, "result_gone")


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OfItsLibrary()])
def test_a_storage_that_cannot_be_read_now_is_503_and_not_gone(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    api = InProcessApi()
    _, address = a_file_of(api)

    def away(name: str, mode: str) -> Any:
        raise error

    monkeypatch.setattr(storages["jobs"], "open", away)
    problem(api.get(address), 503, "unavailable", retryable=True)


def test_what_is_opened_is_closed_as_the_storage_would_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote one has more to let go of than the bytes."""
    closed: list[str] = []

    class Remote(ContentFile):  # type: ignore[type-arg]
        def close(self) -> None:
            closed.append("remote")

    monkeypatch.setattr(storages["jobs"], "open", lambda name, mode: Remote(b"abc"))
    with stored_files.opened("uploads/x") as file:
        assert file.read() == b"abc"
    assert closed == ["remote"]
