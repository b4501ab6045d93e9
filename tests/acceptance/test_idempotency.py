"""One job comes of a key: asked for by fifty callers of four web processes, or by one that dies before its answer (P6)."""

import json
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.conftest import UNSWEPT
from tests.acceptance.diary import Diary
from tests.acceptance.figures import counted, processes_that_counted
from tests.api_client import Api
from tests.waiting import eventually

CALLERS = 50


@pytest.fixture(scope="module")
def stack(start_stack: Callable[..., Stack]) -> Stack:
    return start_stack(without=(*UNSWEPT, "worker-heavy"), WEIGHBRIDGE_WEB_PROCESSES="4")


def test_fifty_callers_with_one_key_get_one_job(stack: Stack, api: Api, diary: Diary) -> None:
    together, body = Barrier(CALLERS), {"type": "tests.note", "params": diary.params("once")}

    def submit(_: int) -> httpx.Response:
        headers = {"Authorization": f"Bearer {stack.key}", "Idempotency-Key": "fifty"}
        with httpx.Client(base_url=stack.url, headers=headers, timeout=30, trust_env=False) as client:
            together.wait(30)
            return client.post("/api/v1/jobs", json=body)

    with ThreadPoolExecutor(CALLERS) as callers:
        answers = list(callers.map(submit, range(CALLERS)))
    told = Counter((answer.status_code, answer.headers.get("Idempotency-Replayed")) for answer in answers)
    print(f"told: {dict(told)}")
    assert told.keys() <= {(202, None), (202, "true"), (409, None)}
    assert told[202, None] == 1
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"idempotency_in_flight"}
    (job_id,) = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert processes_that_counted(stack.data_dir, "jobs_replayed_total") >= 2, "the race was between web processes"
    assert counted(stack, "jobs_replayed_total", cost_class="light") == told[202, "true"]
    assert api.ended(job_id)["state"] == "succeeded"
    assert diary.began() == ["once"]
    assert [record.id for record in records.jobs(stack.database_url)] == [job_id]


def test_a_caller_that_died_before_its_answer_gets_the_same_job(stack: Stack, api: Api, diary: Diary) -> None:
    body = {"type": "tests.note", "params": diary.params("died", held=True)}
    before = {record.id for record in records.jobs(stack.database_url)}
    with socket.create_connection(("127.0.0.1", stack.port)) as dying:
        dying.sendall(_request(stack, body, "died"))
        eventually(lambda: len(records.jobs(stack.database_url)) > len(before))
    (job_id,) = {record.id for record in records.jobs(stack.database_url)} - before

    again = api.http.post("/jobs", json=body, headers={"Idempotency-Key": "died"})
    assert (again.status_code, again.json()["id"], again.headers["Idempotency-Replayed"]) == (202, job_id, "true")
    seen = api.cost_class("light")
    assert seen["waiting"] + seen["running"] == 1, "one place is used"
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"
    assert diary.began() == ["died"]


def _request(stack: Stack, body: object, key: str) -> bytes:
    content = json.dumps(body).encode()
    lines = [
        "POST /api/v1/jobs HTTP/1.1",
        f"Host: 127.0.0.1:{stack.port}",
        f"Authorization: Bearer {stack.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        f"Idempotency-Key: {key}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content
