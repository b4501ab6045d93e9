"""GET /jobs/{id}/artifacts/{name}: the file a job left, for its owner, in its time, as an attachment."""

from typing import Any
from urllib.parse import quote

import pytest

from jobs import lifecycle
from jobs.files import stored_files
from jobs.lifecycle import Claim
from jobs.models import Artifact, Job, WorkerNode
from tests.files import an_artifact
from tests.in_process_api import BASE, InProcessApi, a_probe_node, claim_probe, problem
from tests.job_rows import succeed

pytestmark = pytest.mark.django_db

CONTENT = bytes(range(256)) * 4
SIZE = len(CONTENT)


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture
def node() -> WorkerNode:
    return a_probe_node()


@pytest.fixture
def claimed(api: InProcessApi, node: WorkerNode) -> Claim:
    api.submit()
    return claim_probe(node)


@pytest.fixture
def address(claimed: Claim) -> str:
    """Of a file of a job that has succeeded."""
    an_artifact(claimed, "chart.png", CONTENT)
    succeed(claimed)
    return f"/jobs/{claimed.job_id}/artifacts/chart.png"


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_the_job_lists_its_files_and_each_link_brings_one(api: InProcessApi, claimed: Claim) -> None:
    names = ["b.txt", "März & Söhne?.csv"]
    made = {name: an_artifact(claimed, name, name.encode()) for name in names}
    succeed(claimed, "result")
    listed = api.job(str(claimed.job_id))["artifacts"]
    assert [one["name"] for one in listed] == sorted(names)
    for one in listed:
        row = made[one["name"]]
        assert (one["bytes"], one["sha256"], one["content_type"]) == (row.size_bytes, row.sha256, "text/plain")
        assert body(api.send("GET", one["link"])) == one["name"].encode()


def test_a_file_is_an_attachment_that_no_browser_runs(api: InProcessApi, address: str) -> None:
    response = api.get(address)
    assert response.status_code == 200
    assert body(response) == CONTENT
    told = response.headers
    assert (told["Content-Type"], told["Content-Length"]) == ("text/plain", str(SIZE))
    assert told["Content-Disposition"] == 'attachment; filename="chart.png"'
    assert told["X-Content-Type-Options"] == "nosniff"
    assert told["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert told["ETag"] == f'"{Artifact.objects.get().sha256}"'


@pytest.mark.parametrize(
    ("name", "disposition"),
    [
        ("März.csv", "attachment; filename*=utf-8''M%C3%A4rz.csv"),
        ('a";b.csv', 'attachment; filename="a\\";b.csv"'),
    ],
)
def test_any_name_is_written_as_browsers_read_it(
    api: InProcessApi, claimed: Claim, name: str, disposition: str
) -> None:
    an_artifact(claimed, name)
    succeed(claimed)
    response = api.get(f"/jobs/{claimed.job_id}/artifacts/{quote(name)}")
    assert response.headers["Content-Disposition"] == disposition


@pytest.mark.parametrize(
    "name", ["b.png", "chart.png ", "CHART.PNG", "..", "../chart.png", "chart.png/", "%00", "x" * 300]
)
def test_an_unknown_name_is_404(api: InProcessApi, address: str, name: str) -> None:
    folder = address.rpartition("/")[0]
    problem(api.get(f"{folder}/{name if '%' in name else quote(name)}"), 404, "not_found")


def test_a_job_that_has_not_ended_is_409(api: InProcessApi, claimed: Claim) -> None:
    an_artifact(claimed)
    address = f"/jobs/{claimed.job_id}/artifacts/a.txt"
    assert problem(api.get(address), 409, "not_finished", retryable=True) == {}
    assert api.job(str(claimed.job_id))["artifacts"] == []


def test_a_job_that_failed_has_none(api: InProcessApi, claimed: Claim) -> None:
    an_artifact(claimed)
    lifecycle.cancel(claimed.job_id)
    succeed(claimed)
    problem(api.get(f"/jobs/{claimed.job_id}/artifacts/a.txt"), 404, "not_found")
    assert api.job(str(claimed.job_id))["artifacts"] == []


def test_past_its_retention_a_file_is_410_and_no_longer_listed(api: InProcessApi, address: str) -> None:
    Job.objects.update(result_expired=True)
    problem(api.get(address), 410, "result_gone")
    assert api.job(address.split("/")[2])["artifacts"] == []


def test_a_row_without_its_file_is_410(api: InProcessApi, address: str) -> None:
    stored_files.remove(Artifact.objects.get().file_name)
    problem(api.get(address), 410, "result_gone")


def test_another_clients_file_is_404_like_a_job_that_never_was(address: str) -> None:
    other = InProcessApi()
    nowhere = "/jobs/00000000-0000-7000-8000-000000000000/artifacts/chart.png"
    answers = [other.get(path) for path in (address, nowhere)]
    assert [problem(answer, 404, "not_found") for answer in answers] == [{}, {}]
    assert answers[0].json() == answers[1].json()


def test_files_need_the_scope_to_read(address: str) -> None:
    problem(InProcessApi("jobs:submit").get(address), 403, "forbidden")


def test_who_may_submit_but_not_read_is_not_told_of_files(api: InProcessApi) -> None:
    response = InProcessApi("jobs:submit").post("probe.sleep", {"seconds": 0})
    assert response.json()["artifacts"] == []


def test_who_has_it_is_told_so(api: InProcessApi, address: str) -> None:
    tag = api.get(address).headers["ETag"]
    response = api.get(address, {"If-None-Match": tag})
    assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert api.get(address, {"If-None-Match": '"other"'}).status_code == 200


RANGES = [
    ("bytes=0-0", 0, 1),
    ("bytes=0-99", 0, 100),
    ("bytes=1000-", 1000, SIZE),
    ("bytes=1000-99999", 1000, SIZE),
    ("bytes=1000-99999999999999999999", 1000, SIZE),
    ("bytes=-24", SIZE - 24, SIZE),
    ("Bytes=-24", SIZE - 24, SIZE),
    ("bytes=-99999", 0, SIZE),
]


@pytest.mark.parametrize(("asked", "first", "end"), RANGES)
def test_a_range_is_that_part(api: InProcessApi, address: str, asked: str, first: int, end: int) -> None:
    response = api.get(address, {"Range": asked})
    assert response.status_code == 206
    assert response.headers["Content-Range"] == f"bytes {first}-{end - 1}/{SIZE}"
    assert response.headers["Content-Length"] == str(end - first)
    assert body(response) == CONTENT[first:end]


@pytest.mark.parametrize("asked", [f"bytes={SIZE}-", "bytes=-0", "bytes=99999-100000"])
def test_a_range_that_is_not_there_is_416(api: InProcessApi, address: str, asked: str) -> None:
    response = api.get(address, {"Range": asked})
    problem(response, 416, "range_not_satisfiable")
    assert response.headers["Content-Range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize("asked", ["bytes=5-4", "bytes=0-1,3-4", "pages=1-2", "bytes=a-b", "bytes=-", "1-2", ""])
def test_a_range_that_cannot_be_read_is_the_whole(api: InProcessApi, address: str, asked: str) -> None:
    assert body(api.get(address, {"Range": asked})) == CONTENT


def test_a_range_of_what_has_changed_is_the_whole(api: InProcessApi, address: str) -> None:
    tag = api.get(address).headers["ETag"]
    assert api.get(address, {"Range": "bytes=0-1", "If-Range": tag}).status_code == 206
    for other in ('"old"', f"W/{tag}", "Tue, 01 Dec 2026 00:00:00 GMT", ""):
        assert api.get(address, {"Range": "bytes=0-1", "If-Range": other}).status_code == 200


@pytest.mark.parametrize("asked", [*(asked for asked, _, _ in RANGES), f"bytes={SIZE}-"])
def test_a_range_means_nothing_to_who_asks_for_the_head_alone(api: InProcessApi, address: str, asked: str) -> None:
    """RFC 9110, 14.2."""
    response = api.send("HEAD", f"{BASE}{address}", headers={"Range": asked})
    assert (response.status_code, response.headers["Content-Length"]) == (200, str(SIZE))
    assert "Content-Range" not in response.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_file_that_is_not_the_one_that_was_meant_is_412_whatever_else_was_asked(
    api: InProcessApi, address: str, method: str
) -> None:
    tag = api.get(address).headers["ETag"]
    for meant in ('"old"', f"W/{tag}", ""):
        headers = {"If-Match": meant, "If-None-Match": tag, "Range": f"bytes={SIZE}-"}
        response = api.send(method, f"{BASE}{address}", headers=headers)
        assert (response.status_code, response.headers["ETag"]) == (412, tag)
    for meant in (tag, "*", f'"old", {tag}'):
        assert api.send(method, f"{BASE}{address}", headers={"If-Match": meant}).status_code == 200


def test_a_date_is_no_condition_of_a_file(api: InProcessApi, address: str) -> None:
    """It has no Last-Modified that one could be held against (RFC 9110, 13.1.3 and 13.1.4)."""
    for name in ("If-Unmodified-Since", "If-Modified-Since"):
        assert api.get(address, {name: "Thu, 01 Jan 2026 00:00:00 GMT"}).status_code == 200


def test_a_file_costs_its_job_and_the_key(api: InProcessApi, address: str, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        body(api.get(address))


def test_a_jobs_files_cost_no_question_of_their_own_however_many(
    api: InProcessApi, claimed: Claim, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        an_artifact(claimed, f"{number}.txt")
    succeed(claimed)
    with django_assert_num_queries(2):  # the key and the job
        assert len(api.job(str(claimed.job_id))["artifacts"]) == 5


def test_a_submit_that_comes_again_shows_the_files_of_its_job(api: InProcessApi, node: WorkerNode) -> None:
    body_and_key = {"type": "probe.sleep", "params": {"seconds": 0}}, {"Idempotency-Key": "k"}
    assert api.json(*body_and_key).status_code == 202
    claimed = claim_probe(node)
    an_artifact(claimed)
    succeed(claimed)
    assert [one["name"] for one in api.json(*body_and_key).json()["artifacts"]] == ["a.txt"]
