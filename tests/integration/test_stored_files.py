"""The sweep of files gets on: past what stays, with a slow storage, and with a run that is killed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.files.storage import storages

from jobs.files import artifacts, stored_files, uploads
from jobs.models import Artifact, Upload
from tests.files import an_artifact, an_upload
from tests.job_rows import a_node, a_running_job, requeue

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
