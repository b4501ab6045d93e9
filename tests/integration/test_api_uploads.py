"""POST /uploads, and who may do what with an upload."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.storage import storages
from pydantic import BaseModel

from jobs import registry
from jobs.files import stored_files, uploads
from jobs.files.spool import Spool
from jobs.files.upload_ids import UNKNOWN, UploadId
from jobs.models import Job, Upload
from jobs.registry import JobType
from tests.files import an_upload, on_their_way, stored
from tests.in_process_api import BASE, InProcessApi, problem
from tests.job_rows import a_node, claim, later, succeed

pytestmark = pytest.mark.django_db

CSV = b"a,b\n1,2\n"
SHA256 = hashlib.sha256(CSV).hexdigest()
DIGEST = base64.b64encode(hashlib.sha256(CSV).digest()).decode()
TYPE = "tests.reads_files"
NOWHERE = "00000000-0000-7000-8000-000000000000"


class Files(BaseModel):
    file: UploadId
    more: list[UploadId] = []
    named: dict[str, UploadId] = {}


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture(autouse=True)
def reads_files(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {TYPE: JobType(name=TYPE, handler=print, params=Files, cost_class="light")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **added})


@pytest.fixture(autouse=True)
def nothing_on_its_way() -> Any:
    yield
    assert on_their_way() == []


def send(api: InProcessApi, content: bytes = CSV, content_type: str = "text/csv", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.send("POST", f"{BASE}/uploads", content, content_type, named)


def test_an_upload_is_kept_and_told_with_its_checksum(api: InProcessApi) -> None:
    response = send(api)
    assert response.status_code == 201, response.content
    told = response.json()
    assert (told["bytes"], told["sha256"]) == (len(CSV), SHA256)
    assert response.headers["Location"] == told["links"]["self"] == f"{BASE}/uploads/{told['id']}"
    row = Upload.objects.get()
    assert (str(row.pk), row.client, row.size_bytes, row.sha256) == (told["id"], api.client, len(CSV), SHA256)
    with stored_files.opened(row.file_name) as file:
        assert file.read() == CSV
    assert api.send("GET", response.headers["Location"]).json() == told


def test_an_empty_file_is_a_file(api: InProcessApi) -> None:
    told = send(api, b"").json()
    assert (told["bytes"], told["sha256"]) == (0, hashlib.sha256(b"").hexdigest())


def test_what_is_sent_is_kept_as_it_is_whatever_it_is_called(api: InProcessApi) -> None:
    """A form that is no multipart one is what curl calls any body."""
    for content_type in ("application/x-www-form-urlencoded", "text/csv; charset=latin-1", "image/png", "odd", ""):
        assert send(api, b"\xff\x00&=%", content_type).json()["bytes"] == 5


def test_a_form_and_an_encoded_body_are_415(api: InProcessApi) -> None:
    problem(send(api, content_type="multipart/form-data; boundary=x"), 415, "unsupported_media_type")
    problem(send(api, Content_Encoding="gzip"), 415, "unsupported_media_type")
    assert not Upload.objects.exists()


def test_one_byte_too_many_is_413_and_one_less_is_taken(api: InProcessApi, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES = len(CSV)
    members = problem(send(api, CSV + b"x"), 413, "too_large")
    assert members == {"limit_bytes": len(CSV)}
    assert not Upload.objects.exists()
    assert send(api).status_code == 201


@pytest.mark.parametrize("digest", [f"sha-256=:{DIGEST}:", f"sha-512=:AA==:, sha-256=:{DIGEST}:", "sha-512=:AA==:"])
def test_a_digest_that_is_right_or_of_another_kind_is_no_objection(api: InProcessApi, digest: str) -> None:
    assert send(api, Content_Digest=digest).status_code == 201


def test_a_body_of_another_digest_is_not_kept(api: InProcessApi) -> None:
    members = problem(send(api, CSV + b"x", Content_Digest=f"sha-256=:{DIGEST}:"), 400, "digest_mismatch")
    assert members == {"sha256": hashlib.sha256(CSV + b"x").hexdigest()}
    assert not Upload.objects.exists()


@pytest.mark.parametrize("digest", ["sha-256=abc", "sha-256=:AA==:", f"sha-256={DIGEST}", "sha-256=::"])
def test_a_digest_that_is_none_is_400(api: InProcessApi, digest: str) -> None:
    problem(send(api, Content_Digest=digest), 400, "bad_request")
    assert not Upload.objects.exists()


# ── A key ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_upload_that_comes_again_under_its_key_is_the_first(api: InProcessApi) -> None:
    first = send(api, Idempotency_Key="k")
    again = send(api, Idempotency_Key='"k"')
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]
    assert again.json() == first.json()
    assert len(stored("uploads") & {str(pk) for pk in Upload.objects.values_list("pk", flat=True)}) == 1


def test_a_key_that_stands_for_other_content_is_422(api: InProcessApi) -> None:
    send(api, Idempotency_Key="k")
    problem(send(api, b"other", Idempotency_Key="k"), 422, "idempotency_mismatch")
    assert Upload.objects.count() == 1
    assert send(InProcessApi(), b"other", Idempotency_Key="k").status_code == 201  # another client's own


def test_a_key_is_free_again_once_its_upload_is_past_its_time(api: InProcessApi) -> None:
    first = send(api, Idempotency_Key="k").json()["id"]
    Upload.objects.update(created_at=later(-90_000))
    again = send(api, b"other", Idempotency_Key="k")
    assert again.status_code == 201
    assert again.json()["id"] != first


def test_of_two_at_once_under_one_key_the_second_is_the_first(
    api: InProcessApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is stored while this one's file is on its way."""
    put = stored_files.put
    others: list[str] = []

    def meanwhile(name: str, content: Any) -> None:
        put(name, content)
        if not others:
            others.append("")
            others.append(send(api, Idempotency_Key="k").json()["id"])

    monkeypatch.setattr(stored_files, "put", meanwhile)
    response = send(api, Idempotency_Key="k")
    assert (response.status_code, response.json()["id"]) == (200, others[1])
    assert [str(pk) for pk in Upload.objects.values_list("pk", flat=True)] == others[1:]


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256])
def test_a_key_that_is_none_is_400(api: InProcessApi, key: str) -> None:
    problem(api.send("POST", f"{BASE}/uploads", CSV, "text/csv", {"Idempotency-Key": key}), 400, "bad_request")


# ── How much ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_keeps_no_more_than_it_may(api: InProcessApi, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES = 2 * len(CSV)
    first = send(api).headers["Location"]
    assert send(api).status_code == 201
    members = problem(send(api), 429, "uploads_full", retryable=True)
    assert members == {"limit_bytes": 2 * len(CSV)}
    assert send(InProcessApi()).status_code == 201
    assert api.send("DELETE", first).status_code == 204
    assert send(api).status_code == 201


def test_what_a_client_keeps_and_may_keep_is_told(api: InProcessApi, settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES = 4096
    send(api)
    told = api.get("/client").json()
    assert told["limits"]["upload_bytes"] == 4096
    assert (told["quotas"]["uploads_bytes"], told["quotas"]["max_uploads_bytes"]) == (len(CSV), 2**30)


def test_a_storage_that_is_away_is_503_and_leaves_nothing(api: InProcessApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(name: str, content: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storages["jobs"], "save", full)
    problem(send(api), 503, "unavailable", retryable=True)
    assert not Upload.objects.exists()


# ── Whose ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_another_clients_upload_is_404_like_one_that_never_was(api: InProcessApi, method: str) -> None:
    theirs = an_upload(client=InProcessApi().client)
    answers = [api.send(method, f"{BASE}/uploads/{name}") for name in (theirs.pk, NOWHERE)]
    told = [problem(answer, 404, "not_found") for answer in answers]
    assert told[0] == told[1]
    assert answers[0].json() == answers[1].json()
    assert Upload.objects.filter(pk=theirs.pk).exists()


def test_an_id_that_is_none_is_told_so(api: InProcessApi) -> None:
    for method in ("GET", "DELETE"):
        answer = api.send(method, f"{BASE}/uploads/first")
        problem(answer, 404, "not_found")
        assert answer.json()["detail"] == "There is no upload of that id: an id is a UUID, as the answer gave it."


def test_uploads_need_the_scope_to_submit() -> None:
    reader = InProcessApi("jobs:read")
    problem(send(reader), 403, "forbidden")
    problem(reader.send("GET", f"{BASE}/uploads/{NOWHERE}"), 403, "forbidden")
    problem(reader.send("DELETE", f"{BASE}/uploads/{NOWHERE}"), 403, "forbidden")
    assert send(InProcessApi("jobs:submit")).status_code == 201


def test_a_strangers_body_is_not_read(api: InProcessApi) -> None:
    class Untouchable:
        def read(self, *sizes: int) -> bytes:
            raise AssertionError("the body was read")

        readline = read

    environ = {"CONTENT_LENGTH": "100", "wsgi.input": Untouchable()}
    stranger = {"Authorization": "Bearer nobody"}
    problem(api.send("POST", f"{BASE}/uploads", b"", "text/csv", stranger, **environ), 401, "unauthorized")


# ── In params ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_may_name_its_clients_uploads_wherever_its_type_asks_for_one(api: InProcessApi) -> None:
    file, one, other = (str(an_upload(client=api.client).pk) for _ in range(3))
    response = api.post(TYPE, {"file": file, "more": [one, one], "named": {"x": other}})
    assert response.status_code == 202, response.content
    assert Job.objects.get().params["file"] == file


def _upper(api: InProcessApi) -> str:
    return str(an_upload(client=api.client).pk).upper()


def _late(api: InProcessApi) -> str:
    return str(an_upload(client=api.client, created_at=later(-86_401)).pk)


UNKNOWNS: dict[str, Callable[[InProcessApi], str]] = {
    "another client's": lambda api: str(an_upload(client=InProcessApi().client).pk),
    "one that never was": lambda api: NOWHERE,
    "one past its time": _late,
    "one that is not whole": lambda api: str(an_upload(client=api.client, stored_at=None).pk),
    "another form of an id": _upper,
    "no id": lambda api: "../../etc/passwd",
    "a word with NUL's escape": lambda api: "\\u0000",
    "a job's id": lambda api: api.submit(),
}


@pytest.mark.parametrize("which", UNKNOWNS)
def test_an_upload_that_is_not_the_clients_is_422_always_alike(api: InProcessApi, which: str) -> None:
    named = UNKNOWNS[which](api)
    before = Job.objects.count()
    response = api.post(TYPE, {"file": named})
    members = problem(response, 422, "invalid_params")
    assert members == {"errors": [{"loc": ["params", "file"], "msg": UNKNOWN}]}
    assert response.json()["detail"] == f"The params do not fit {TYPE}."
    assert Job.objects.count() == before


def test_every_place_of_an_unknown_upload_is_named(api: InProcessApi) -> None:
    good = str(an_upload(client=api.client).pk)
    params = {"file": good, "more": [good, NOWHERE], "named": {"x": NOWHERE}}
    members = problem(api.post(TYPE, params), 422, "invalid_params")
    assert [error["loc"] for error in members["errors"]] == [["params", "more", "1"], ["params", "named", "x"]]


def test_params_with_uploads_cost_one_look_and_others_none(api: InProcessApi, django_assert_num_queries: Any) -> None:
    file = str(an_upload(client=api.client).pk)
    with django_assert_num_queries(4):  # the key, the uploads, what operators have set, the admission
        assert api.post(TYPE, {"file": file, "more": [file]}).status_code == 202


def test_the_schema_of_a_type_says_where_an_upload_goes(api: InProcessApi) -> None:
    schema = api.get(f"/types/{TYPE}").json()["params_schema"]
    assert schema["properties"]["file"]["format"] == "uuid"
    assert "POST /api/v1/uploads" in schema["properties"]["file"]["description"]


# ── Its end ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_upload_goes_when_its_time_is_over_and_its_file_with_it() -> None:
    kept, gone = an_upload(created_at=later(-86_400 - 50)), an_upload(created_at=later(-86_400 - 70))
    assert uploads.prune() == 1
    assert [upload.pk for upload in Upload.objects.all()] == [kept.pk]
    assert str(kept.pk) in stored("uploads")
    assert str(gone.pk) not in stored("uploads")
    assert uploads.prune() == 0


def test_an_upload_stays_while_a_job_that_names_it_has_not_ended(api: InProcessApi) -> None:
    file = an_upload(client=api.client)
    node = a_node(types=(TYPE,))
    assert api.post(TYPE, {"file": str(file.pk)}).status_code == 202
    Upload.objects.update(created_at=later(-100_000))
    assert uploads.prune() == 0
    claimed = claim(node, types=(TYPE,))
    assert claimed is not None
    assert uploads.prune() == 0
    succeed(claimed)
    assert uploads.prune() == 1
    assert str(file.pk) not in stored("uploads")


def test_an_upload_that_a_live_job_names_cannot_be_deleted(api: InProcessApi) -> None:
    file = an_upload(client=api.client)
    job_id = api.post(TYPE, {"file": str(file.pk)}).json()["id"]
    address = f"{BASE}/uploads/{file.pk}"
    problem(api.send("DELETE", address), 409, "upload_in_use")
    api.cancel(job_id)
    assert api.send("DELETE", address).status_code == 204
    problem(api.send("DELETE", address), 404, "not_found")


def test_what_was_never_finished_goes_after_a_while_whole_or_not() -> None:
    """Its process ended between row and file, or in the middle of the file."""
    young = an_upload(stored_at=None, created_at=later(-800))
    old = an_upload(stored_at=None, created_at=later(-1000))
    stored_files.remove(old.file_name)
    assert uploads.prune() == 1
    assert [upload.pk for upload in Upload.objects.all()] == [young.pk]


def test_a_storage_that_removes_nothing_keeps_the_row_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    an_upload(created_at=later(-100_000))

    def away(name: str) -> None:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(storages["jobs"], "delete", away)
        assert uploads.prune() == 0
    assert uploads.prune() == 1


def test_a_spool_takes_no_more_than_it_may() -> None:
    with Spool(3) as spool:
        assert spool.write(b"abc") == 3
        with pytest.raises(ValueError):
            spool.write(b"d")
