"""One job comes of a key: asked for by fifty callers of four web processes, or by one that dies before its answer (P6)."""

import json
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.diary import Diary
from tests.acceptance.figures import counted, processes_that_counted
from tests.acceptance.raw_submits import RawSubmit
from tests.api_client import Api
from tests.waiting import eventually

CALLERS = 50


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


def test_fifty_callers_with_one_key_get_one_job(stack: Stack, api: Api, diary: Diary) -> None:
    together, before = Barrier(CALLERS), counted(stack, "jobs_replayed_total", cost_class="light")
    rows = _ids(stack)
    params = diary.params("once")

    def submit(_: int) -> httpx.Response:
        together.wait(30)
        return api.post("tests.note", params, key="fifty")

    with ThreadPoolExecutor(CALLERS) as callers:
        answers = list(callers.map(submit, range(CALLERS)))
    told = Counter((answer.status_code, answer.headers.get("Idempotency-Replayed")) for answer in answers)
    print(f"told: {dict(told)}")
    assert told.keys() <= {(202, None), (202, "true"), (409, None)}
    assert told[202, None] == 1
    early = [answer for answer in answers if answer.status_code == 409]
    assert {(answer.json()["code"], answer.headers["Retry-After"]) for answer in early} <= {
        ("idempotency_in_flight", "1")
    }
    (job_id,) = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert _ids(stack) - rows == {job_id}
    assert processes_that_counted(stack.data_dir, "jobs_replayed_total") >= 2, "the race was between web processes"
    assert counted(stack, "jobs_replayed_total", cost_class="light") - before == told[202, "true"]
    assert api.ended(job_id)["state"] == "succeeded"
    assert diary.began() == ["once"]


def test_a_caller_that_died_before_its_answer_gets_the_same_job(stack: Stack, api: Api, diary: Diary) -> None:
    before = _ids(stack)
    with RawSubmit(stack, diary, "died", held=True) as dying:
        dying.send_head(f"Content-Length: {len(dying.body)}", "Idempotency-Key: died")
        dying.send(dying.body)
        eventually(lambda: _ids(stack) > before)
    (job_id,) = _ids(stack) - before

    again = api.post("tests.note", json.loads(dying.body)["params"], key="died")
    assert (again.status_code, again.json()["id"], again.headers["Idempotency-Replayed"]) == (202, job_id, "true")
    eventually(lambda: _places_taken(api) == 1, 3)  # each web process keeps its answer for a second
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"
    assert diary.began() == ["died"]


# Waits for the end of a job that will not end: the answer is never read.
CALLER = """
import sys, httpx
url, key = sys.argv[1:]
headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Idempotency-Key": "killed", "Prefer": "wait=50"}
httpx.post(f"{url}/api/v1/jobs", content=sys.stdin.buffer.read(), headers=headers, timeout=60, trust_env=False)
"""


def test_a_caller_whose_process_was_killed_after_the_commit_comes_back_to_the_same_job(
    stack: Stack, api: Api, diary: Diary
) -> None:
    asked, rows = RawSubmit(stack, diary, "killed", held=True), _ids(stack)
    killed = subprocess.Popen([sys.executable, "-c", CALLER, stack.url, stack.key], stdin=subprocess.PIPE)
    try:
        assert killed.stdin is not None
        killed.stdin.write(asked.body)
        killed.stdin.close()
        job_id = eventually(lambda: records.job_of(stack.database_url, asked.submission))
        assert killed.poll() is None, "it waits for its answer"
    finally:
        killed.kill()
    assert killed.wait(10) == -signal.SIGKILL

    params = json.loads(asked.body)["params"]
    answers = [api.post("tests.note", params, key="killed") for _ in range(3)]
    assert {(answer.status_code, answer.headers["Idempotency-Replayed"]) for answer in answers} == {(202, "true")}
    assert {answer.json()["id"] for answer in answers} == {job_id}
    eventually(lambda: _places_taken(api) == 1, 3)  # each web process keeps its answer for a second
    assert _ids(stack) - rows == {job_id}
    diary.open_gate()
    assert job_id is not None
    assert api.ended(job_id)["state"] == "succeeded", "whoever has a key may come back, so nothing was cancelled"
    assert diary.began() == ["killed"]


def _places_taken(api: Api) -> int:
    seen = api.cost_class("light")
    return int(seen["waiting"] + seen["running"])


def _ids(stack: Stack) -> set[str]:
    return {record.id for record in records.jobs(stack.database_url)}
