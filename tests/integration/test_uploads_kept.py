"""An upload is there for the job that names it, however late that is admitted."""

import pytest
from django.test import TestCase
from pydantic import BaseModel

from jobs import registry
from jobs.files import uploads
from jobs.files.upload_ids import UploadId
from jobs.models import ApiClient, Job, OutboxEntry, Upload
from jobs.registry import JobType
from jobs.submit import InvalidJob, outbox, submit
from tests.files import an_upload, stored
from tests.in_process_api import BASE, InProcessApi, problem
from tests.job_rows import later

pytestmark = pytest.mark.django_db
TYPE = "tests.reads_a_file"


class File(BaseModel):
    file: UploadId


@pytest.fixture(autouse=True)
def reads_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {TYPE: JobType(name=TYPE, handler=print, params=File, cost_class="light")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **added})


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def address(file: Upload) -> str:
    return f"{BASE}/uploads/{file.pk}"


def is_kept(file: Upload) -> bool:
    """Its row and its file."""
    return Upload.objects.filter(pk=file.pk).exists() and str(file.pk) in stored("uploads")


# ── By a job that a transaction asked for ────────────────────────────────────────────────────────────────────────────


def an_entry(client: ApiClient, file: Upload, monkeypatch: pytest.MonkeyPatch) -> OutboxEntry:
    """It waits: the process ended right after the commit."""
    with monkeypatch.context() as dying, TestCase.captureOnCommitCallbacks(execute=True):
        dying.setattr(outbox, "_try_at_once", lambda entry_id: None)
        given = submit(TYPE, {"file": str(file.pk)}, client=client.name, on_commit=True)
    return OutboxEntry.objects.get(pk=given.entry_id)


def test_an_upload_that_waits_in_the_outbox_is_there_for_its_job_past_its_time(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = an_upload(client=api.client)
    entry = an_entry(api.client, file, monkeypatch)
    Upload.objects.update(created_at=later(-100_000))
    assert uploads.prune() == 0
    problem(api.send("DELETE", address(file)), 404, "not_found")  # to its client it is past its time
    assert outbox.try_one(entry.pk) == "admitted"
    assert uploads.prune() == 0
    found = uploads.of_job(Job.objects.get().pk, str(file.pk))
    assert found is not None and is_kept(found)


def test_an_upload_that_waits_in_the_outbox_cannot_be_deleted(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = an_upload(client=api.client)
    an_entry(api.client, file, monkeypatch)
    problem(api.send("DELETE", address(file)), 409, "upload_in_use")
    assert is_kept(file)


def test_an_entry_that_was_given_up_keeps_nothing(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    file = an_upload(client=api.client)
    entry = an_entry(api.client, file, monkeypatch)
    OutboxEntry.objects.update(state="given_up", ended_at=later(0))
    Upload.objects.update(created_at=later(-100_000))
    assert outbox.try_one(entry.pk) == "gone"
    assert uploads.prune() == 1
    assert not is_kept(file)


def test_what_is_past_its_time_is_nothing_to_write_down(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    file = an_upload(client=api.client, created_at=later(-100_000))
    with pytest.raises(InvalidJob):
        an_entry(api.client, file, monkeypatch)


def test_an_entry_whose_upload_is_gone_all_the_same_is_refused(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = an_upload(client=api.client)
    entry = an_entry(api.client, file, monkeypatch)
    Upload.objects.all().delete()
    assert outbox.try_one(entry.pk) == "later"
    entry.refresh_from_db()
    assert (entry.reason, Job.objects.count()) == ("invalid_params", 0)
