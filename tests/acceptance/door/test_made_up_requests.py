"""Requests that a program makes up from the published schema: the real server answers each as that schema says, and none with a fault."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.api_client import LIVE, Api
from tests.published_schema import as_published

SEED = 17
# Made up at random for each operation, beside those that try each rule of the schema.
EXAMPLES, EXAMPLES_IN_FULL = 3, 150
TOOK_SECONDS = 1800  # in full, on a busy machine, half of it
# Real bytes are taken, told of and deleted again; and a file that a job left is read.
REACHED = {
    ("POST", "jobs", 202),
    ("POST", "batches", 202),
    ("POST", "uploads", 201),
    ("GET", "uploads", 200),
    ("DELETE", "uploads", 204),
    ("GET", "artifacts", 200),
}
_KIND = re.compile("/(jobs|batches|uploads|artifacts)")

# A class may be full, and a job need not be, or be as some header says. What is too large is refused before it is looked at.
CONFIGURATION = """
[parameters]
"header.Prefer" = "respond-async"

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 412, 422, 429, 503]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 503]

# A made-up digest is not that of a made-up file; and of a file any bytes will do.
[[operations]]
include-operation-id = "upload"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 415, 422, 429, 503]
checks.negative_data_rejection.enabled = false

# What cannot be read of a range is passed over, and what lies behind the end is 416.
[[operations]]
include-operation-id = "readArtifact"
parameters = {{ job_id = "{job}", name = "left.bin" }}
checks.positive_data_acceptance.expected-statuses = ["2xx", 304, 404, 409, 412, 416]
"""


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@pytest.mark.timeout(TOOK_SECONDS)
def test_nothing_that_is_made_up_from_the_schema_finds_a_fault(stack: Stack, tmp_path: Path, full: bool) -> None:
    (tmp_path / "schema.json").write_bytes(httpx.Response(200, json=_schema(stack)).content)
    with Api(stack.url, stack.key) as api:
        job = api.ended(api.submit("tests.leaves", {"bytes": 1000}))["id"]
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION.format(job=job))
    try:
        ran = subprocess.run(_command(stack, full), cwd=tmp_path, capture_output=True, text=True, timeout=TOOK_SECONDS)
    finally:
        _forget_all(stack)
    print(ran.stdout[-20_000:])
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "passed" in ran.stdout
    assert not REACHED - _done(tmp_path), "what was made up is always refused"


def _done(folder: Path) -> set[tuple[str, str, int]]:
    """Method, kind of thing and status of each answer that is no error."""
    entries = json.loads((folder / "calls.har").read_text())["log"]["entries"]
    calls = [(one["request"]["method"], one["request"]["url"], one["response"]["status"]) for one in entries]
    kinds = [(method, _KIND.findall(url.partition("?")[0]), status) for method, url, status in calls if status < 400]
    return {(method, found[-1], status) for method, found, status in kinds if found}


def _schema(stack: Stack) -> dict[str, Any]:
    """Without the tests' own job types, by themselves or in a batch: their params name files that they write to, and classes that there are not. And without the example of a key, which all but its
    first request would be refused for."""
    document: dict[str, Any] = as_published(httpx.get(f"{stack.url}/api/schema/", trust_env=False)).json()
    _without_tests_own(document["components"]["schemas"]["BatchItem"])
    types = _without_tests_own(document["components"]["schemas"]["Submit"])
    content = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    content["examples"] = {name: example for name, example in content["examples"].items() if name in types}
    assert types
    for item in document["paths"].values():
        item.pop("patch", None)  # by which operators stop everybody's work: nothing would be admitted any more
    for operation in (item[method] for item in document["paths"].values() for method in item if method != "parameters"):
        for parameter in operation["parameters"]:
            if parameter["name"] == "Idempotency-Key":
                del parameter["example"]
    return document


def _without_tests_own(bodies: dict[str, Any]) -> dict[str, str]:
    """The types that are left, and the component of each."""
    types = {name: ref for name, ref in bodies["discriminator"]["mapping"].items() if not name.startswith("tests.")}
    bodies["discriminator"]["mapping"], bodies["oneOf"] = types, [{"$ref": ref} for ref in types.values()]
    return types


def _command(stack: Stack, full: bool) -> list[str]:
    """One worker: several of its threads trip over one another."""
    options = {
        "--url": stack.url,
        "--header": f"Authorization: Bearer {stack.key}",
        "--seed": str(SEED),
        "--max-examples": str(EXAMPLES_IN_FULL if full else EXAMPLES),
        "--phases": "examples,coverage,fuzzing" if full else "examples,fuzzing",
        "--checks": "all",
        "--workers": "1",
        "--generation-database": "none",
        "--report": "har",
        "--report-har-path": "calls.har",
    }
    flat = [part for pair in options.items() for part in pair]
    program = str(Path(sys.executable).with_name("st"))
    return [
        program,
        "--no-color",
        "--config-file",
        "schemathesis.toml",
        "run",
        "schema.json",
        *flat,
        "--no-shrink",
        "--continue-on-failure",
    ]


def _forget_all(stack: Stack) -> None:
    """The stack is left as it was found."""
    with Api(stack.url, stack.key) as api:
        for batch_id in records.batches(stack.database_url):
            api.http.delete(f"/batches/{batch_id}")
        for job in api.http.get("/jobs", params={"state": [*LIVE], "page_size": 100}).json()["jobs"]:
            api.cancel(job["id"])
        for name in ("light", "heavy"):
            api.drained(name)
        for upload_id in records.uploads(stack.database_url):
            api.http.delete(f"/uploads/{upload_id}")
    records.forget_unrecorded(stack.database_url)
