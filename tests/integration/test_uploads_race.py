"""Uploads of one client that come at once, on connections of their own; and a storage that is no folder."""

from typing import Any

import pytest

from jobs.files import artifacts, room, stored_files, uploads
from jobs.models import Artifact, Upload
from tests.files import an_artifact, an_upload
from tests.in_process_api import BASE, InProcessApi
from tests.job_rows import a_node, a_running_job, later
from tests.second_connections import at_once

pytestmark = pytest.mark.django_db(transaction=True)
CONTENT = b"x" * 100


def test_many_at_once_keep_no_more_than_their_client_may(settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES = 350
    api = InProcessApi()
    statuses = at_once(*[lambda: int(api.send("POST", f"{BASE}/uploads", CONTENT, "text/csv").status_code)] * 8)
    assert sorted(statuses) == [201] * 3 + [429] * 5
    assert room.use_of(api.client).kept_bytes == 300


def test_many_at_once_under_one_key_are_one_upload() -> None:
    api = InProcessApi()

    def send() -> tuple[int, str]:
        answer = api.send("POST", f"{BASE}/uploads", CONTENT, "text/csv", {"Idempotency-Key": "k"})
        return answer.status_code, answer.json().get("id")

    answers = at_once(*[send] * 8)
    (kept,) = Upload.objects.all()
    assert {upload_id for _, upload_id in answers} == {str(kept.pk)}
    assert sorted(status for status, _ in answers) == [200] * 7 + [201]


def test_two_who_prune_at_once_remove_each_file_once() -> None:
    for _ in range(20):
        an_upload(created_at=later(-100_000))
    counts = at_once(uploads.prune, uploads.prune)
    assert sum(counts) == 20
    assert not Upload.objects.exists()


def test_nothing_rests_on_the_storage_being_a_folder(settings: Any) -> None:
    memory = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
    settings.STORAGES = {**settings.STORAGES, "jobs": memory}
    api = InProcessApi()
    upload_id = api.send("POST", f"{BASE}/uploads", CONTENT, "text/csv").json()["id"]
    upload = uploads.of_client(api.client.pk).get(pk=upload_id)
    job, claimed = a_running_job(a_node())
    artifact = an_artifact(claimed)
    assert content_of(upload) == CONTENT
    assert content_of(artifact) == b"content"
    Upload.objects.update(created_at=later(-100_000))
    assert uploads.prune() == 1
    job.refresh_from_db()
    Artifact.objects.update(attempt=7)
    assert artifacts.prune() == 1
    for gone in (upload, artifact):
        with pytest.raises(FileNotFoundError):
            content_of(gone)


def content_of(row: Upload | Artifact) -> bytes:
    with stored_files.opened(row.file_name) as file:
        return file.read()
