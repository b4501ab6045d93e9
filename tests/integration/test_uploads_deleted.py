"""A DELETE hides an upload at once, and takes it from no job: not from one that is on its way, nor from one that a transaction asks for."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from pydantic import BaseModel

from jobs import registry
from jobs.files import room, stored_files, uploads
from jobs.files.upload_ids import UploadId
from jobs.models import Job, OutboxEntry, Upload
from jobs.registry import JobType
from jobs.submit import submit
from tests.files import an_upload, stored
from tests.in_process_api import BASE, InProcessApi, a_probe_node, problem
from tests.job_rows import later
from tests.second_connections import Elsewhere, at_once, class_locked, elsewhere, waits_for_a_lock
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
TYPE = "tests.reads_a_file"
CONTENT = b"x" * 100


class File(BaseModel):
    file: UploadId


@pytest.fixture(autouse=True)
def reads_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {TYPE: JobType(name=TYPE, handler=print, params=File, cost_class="light")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **added})


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def send(api: InProcessApi, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.send("POST", f"{BASE}/uploads", CONTENT, "text/csv", named)


def delete(api: InProcessApi, file: Upload) -> int:
    return int(api.send("DELETE", f"{BASE}/uploads/{file.pk}").status_code)


def ask(api: InProcessApi, file: Upload) -> int:
    return int(api.post(TYPE, {"file": str(file.pk)}).status_code)


def a_while_later() -> None:
    """Longer than any admission takes, for whatever has been deleted."""
    Upload.objects.filter(deleted_at__isnull=False).update(deleted_at=later(-uploads.ADMISSION_SECONDS - 1))


def is_kept(file: Upload) -> bool:
    """Its row and its file."""
    return Upload.objects.filter(pk=file.pk).exists() and str(file.pk) in stored("uploads")


def test_what_is_deleted_is_gone_to_its_client_at_once_and_from_the_storage_later(api: InProcessApi) -> None:
    file = an_upload(client=api.client)
    assert delete(api, file) == 204
    for method in ("GET", "DELETE"):
        problem(api.send(method, f"{BASE}/uploads/{file.pk}"), 404, "not_found")
    problem(api.post(TYPE, {"file": str(file.pk)}), 422, "invalid_params")
    assert api.get("/client").json()["quotas"]["uploads_bytes"] == 0
    assert uploads.prune() == 0
    assert is_kept(file)
    a_while_later()
    assert uploads.prune() == 1
    assert not Upload.objects.exists()
    assert str(file.pk) not in stored("uploads")


def test_a_key_is_free_again_once_its_upload_is_deleted(api: InProcessApi) -> None:
    first = send(api, Idempotency_Key="k")
    assert api.send("DELETE", first.headers["Location"]).status_code == 204
    again = send(api, Idempotency_Key="k")
    assert (again.status_code, again.json()["id"] != first.json()["id"]) == (201, True)
    assert send(api, Idempotency_Key="k").json() == again.json()


def test_what_is_kept_and_what_is_deleted_are_together_at_most_twice_what_may_be_kept(
    api: InProcessApi, settings: Any
) -> None:
    settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES = 2 * len(CONTENT)
    for _ in range(4):
        assert api.send("DELETE", send(api).headers["Location"]).status_code == 204
    answer = send(api)
    problem(answer, 429, "uploads_full", retryable=True)
    assert "not removed yet" in answer.json()["detail"]
    assert send(InProcessApi()).status_code == 201
    a_while_later()
    assert uploads.prune() == 4
    assert send(api).status_code == 201


def test_empty_files_have_a_number_too(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes there would be room for any number of them."""
    monkeypatch.setattr(room, "MOST_FILES", 2)
    for _ in range(2):
        assert api.send("POST", f"{BASE}/uploads", b"", "text/csv").status_code == 201
    answer = api.send("POST", f"{BASE}/uploads", b"", "text/csv")
    problem(answer, 429, "uploads_full", retryable=True)
    assert "keeps 2 uploads; it may keep 2." in answer.json()["detail"]


# ── Against a submit that is on its way ──────────────────────────────────────────────────────────────────────────────


def test_no_job_that_is_admitted_ever_lacks_its_upload_whoever_comes_first(api: InProcessApi) -> None:
    a_probe_node(types=(TYPE,))
    seen: Counter[str] = Counter()
    with elsewhere() as submitting, elsewhere() as holding:
        for play, rounds in ((_between, 6), (_submitted_first, 3), (_deleted_first, 3), (_at_once, 12)):
            for _ in range(rounds):
                file = an_upload(client=api.client)
                asked, deleted = play(api, file, submitting, holding)
                seen[f"{play.__name__}: {asked}, {deleted}"] += 1
                _must_be_whole(file, asked, deleted)
    print(dict(seen))
    assert seen["_between: 202, 204"] == 6
    assert seen["_submitted_first: 202, 409"] == 3
    assert seen["_deleted_first: 422, 204"] == 3
    assert {kind.rpartition(": ")[2] for kind in seen} <= {"202, 204", "202, 409", "422, 204"}


def _between(api: InProcessApi, file: Upload, submitting: Elsewhere, holding: Elsewhere) -> tuple[int, int]:
    """The submit has seen the upload, and waits for the lock of its class; a sweep comes too."""
    pid = submitting.backend_pid()
    with class_locked("light", holding):
        waiting = submitting.start(lambda: ask(api, file))
        eventually(lambda: waits_for_a_lock(pid), every_seconds=0.01)
        deleted = delete(api, file)
        uploads.prune()
    return waiting.result(10), deleted


def _submitted_first(api: InProcessApi, file: Upload, submitting: Elsewhere, holding: Elsewhere) -> tuple[int, int]:
    return submitting.run(lambda: ask(api, file)), delete(api, file)


def _deleted_first(api: InProcessApi, file: Upload, submitting: Elsewhere, holding: Elsewhere) -> tuple[int, int]:
    deleted = delete(api, file)
    return submitting.run(lambda: ask(api, file)), deleted


def _at_once(api: InProcessApi, file: Upload, submitting: Elsewhere, holding: Elsewhere) -> tuple[int, int]:
    asked, deleted = at_once(lambda: ask(api, file), lambda: delete(api, file))
    return asked, deleted


def _must_be_whole(file: Upload, asked: int, deleted: int) -> None:
    """An admitted job finds its upload for as long as it lives; then it goes, as that of a refused one."""
    a_while_later()
    if asked == 202:
        job = Job.objects.get()
        assert uploads.prune() == 0
        found = uploads.of_job(job.pk, str(file.pk))
        assert found is not None
        with stored_files.opened(found.file_name) as content:
            assert content.read() == b"content"
        Job.objects.update(state="cancelled", finished_at=later(0))
        Job.objects.all().delete()
    assert uploads.prune() == (1 if deleted == 204 else 0)
    Upload.objects.all().delete()


# ── Against a transaction that stays open ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ended", [delete, lambda api, file: Upload.objects.update(created_at=later(-100_000))])
def test_an_upload_is_there_for_the_entry_of_a_transaction_that_stays_open(
    api: InProcessApi, ended: Callable[[InProcessApi, Upload], object]
) -> None:
    """Nobody sees the entry before its commit, and that may come after any minute."""
    file = an_upload(client=api.client)
    with elsewhere() as others:
        with transaction.atomic():
            given = submit(TYPE, {"file": str(file.pk)}, client=api.client.name, on_commit=True)
            others.run(lambda: ended(api, file))
            others.run(a_while_later)
            assert others.run(uploads.prune) == 0
        assert others.run(uploads.prune) == 0
    assert OutboxEntry.objects.get(pk=given.entry_id).job_id is not None
    assert is_kept(file)


def test_two_transactions_may_name_one_upload_and_neither_waits(api: InProcessApi) -> None:
    file = an_upload(client=api.client)

    def enter() -> object:
        with transaction.atomic():
            return submit(TYPE, {"file": str(file.pk)}, client=api.client.name, on_commit=True)

    with elsewhere() as others, transaction.atomic():
        submit(TYPE, {"file": str(file.pk)}, client=api.client.name, on_commit=True)
        others.run(enter)
    assert OutboxEntry.objects.count() == 2


def test_a_key_of_a_deleted_upload_is_free_also_while_a_transaction_names_it(api: InProcessApi) -> None:
    first = send(api, Idempotency_Key="k")
    file = Upload.objects.get()
    with elsewhere() as others, transaction.atomic():
        submit(TYPE, {"file": str(file.pk)}, client=api.client.name, on_commit=True)
        assert others.run(lambda: delete(api, file)) == 204
        again = others.run(lambda: send(api, Idempotency_Key="k"))
    assert (first.status_code, again.status_code) == (201, 201)
