"""Callers that would rather wait: told at the end, holding up nobody, and never worse off than those who ask again."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.figures import counted, figure, text
from tests.acceptance.raw_submits import RawSubmit
from tests.acceptance.records import job_of
from tests.api_client import Api
from tests.history.events import CancelInvoked, CancelUnknown
from tests.history.nemesis import Away, afflicted
from tests.history.nodes import serving
from tests.history.recorder import now
from tests.processes import lives
from tests.published_schema import must_be_published
from tests.waiting import eventually

MANY = 500
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds; this machine may be busy
CLOSED = (0, "")  # a connection that ended without an answer


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


def test_a_submit_that_waits_is_answered_with_what_became_of_it(stack: Stack, api: Api, diary: Diary) -> None:
    answer = api.post("tests.note", diary.params("waited", seconds=0.3), headers={"Prefer": "wait=20"})
    assert (answer.status_code, answer.json()["result"]) == (200, {"name": "waited"})
    assert answer.headers["Preference-Applied"] == "wait=20"
    again = api.http.get(f"{stack.url}{answer.headers['Location']}", headers={"Prefer": "wait=5"})
    assert again.json()["state"] == "succeeded"


def test_when_the_time_is_over_the_job_goes_on(api: Api, diary: Diary) -> None:
    began = time.monotonic()
    answer = api.post("tests.note", diary.params("long", cost_class="heavy", held=True), headers={"Prefer": "wait=1"})
    assert 1.0 <= time.monotonic() - began <= 1.0 + ANSWERED_SECONDS
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (202, "wait=1")
    diary.open_gate()
    assert api.ended(answer.json()["id"])["state"] == "succeeded"


def _fill_the_class(api: Api, diary: Diary) -> list[str]:
    jobs = [api.submit("tests.note", diary.params(f"full{i}", cost_class="heavy", held=True)) for i in range(2)]
    diary.wait_until_began("full0", "full1")
    return jobs


@pytest.mark.parametrize("key", ["", "Idempotency-Key: can-come-back"], ids=["no key", "a key"])
def test_the_queued_job_of_a_caller_that_left_is_cancelled_unless_it_can_come_back(
    stack: Stack, api: Api, diary: Diary, key: str
) -> None:
    _fill_the_class(api, diary)
    with RawSubmit(stack, diary, f"left{len(key)}", cost_class="heavy") as submit:
        submit.send_head(f"Content-Length: {len(submit.body)}", "Prefer: wait=30", *([key] if key else []))
        submit.send(submit.body)
        job_id = submit.leave()
    if key:
        diary.open_gate()
        assert api.ended(job_id)["state"] == "succeeded"
        return
    diary.history.append(CancelInvoked("left", job_id, now()))
    diary.history.append(CancelUnknown("left", job_id, "nobody was there to be answered", now()))
    eventually(lambda: api.job(job_id)["state"] == "cancelled")
    diary.open_gate()


def test_a_running_job_goes_on_without_its_caller_and_is_counted(stack: Stack, api: Api, diary: Diary) -> None:
    before = counted(stack, "jobs_orphaned_total")
    with RawSubmit(stack, diary, "orphan", cost_class="heavy", held=True) as submit:
        submit.send_head(f"Content-Length: {len(submit.body)}", "Prefer: wait=30")
        submit.send(submit.body)
        diary.wait_until_began("orphan")
        job_id = submit.leave()
    eventually(lambda: counted(stack, "jobs_orphaned_total") == before + 1)
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"


@pytest.mark.timeout(180)
def test_five_hundred_who_wait_hold_up_nobody_and_are_all_told(stack: Stack, api: Api, diary: Diary) -> None:
    job_id = api.submit("tests.note", diary.params("awaited", cost_class="heavy", held=True))
    diary.wait_until_began("awaited")
    times, answers = asyncio.run(_wait_together(stack, job_id, diary))
    print(f"/healthz beside {MANY} who wait: slowest {max(times) * 1e3:.1f} ms")
    assert max(times) < ANSWERED_SECONDS
    assert len(answers) == MANY
    said = Counter((status, job.get("state") or job["detail"]) for status, job in answers)
    assert set(said) == {(200, "succeeded")}, said


async def _wait_together(
    stack: Stack, job_id: str, diary: Diary
) -> tuple[list[float], list[tuple[int, dict[str, Any]]]]:
    waiting = [asyncio.create_task(_waits(stack, job_id)) for _ in range(MANY)]
    times = [await _healthz(stack) for _ in range(200)]
    diary.open_gate()
    async with asyncio.timeout(90):
        return times, await asyncio.gather(*waiting)


async def _waits(stack: Stack, job_id: str) -> tuple[int, dict[str, Any]]:
    """One that gets no turn at first, because so many come at once, comes again as it is told to."""
    while True:
        status, told = await _get(
            stack, f"/api/v1/jobs/{job_id}", f"Authorization: Bearer {stack.key}", "Prefer: wait=60"
        )
        if status != 503:
            return status, json.loads(told)
        await asyncio.sleep(1)


async def _get(stack: Stack, path: str, *headers: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.port)
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status = int(head.split()[1])
    told = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    must_be_published("GET", path, status, told, body)
    return status, body


async def _healthz(stack: Stack) -> float:
    began = time.monotonic()
    status, _ = await _get(stack, "/healthz")
    assert status == 200
    return time.monotonic() - began


def test_a_caller_that_waited_leaves_one_line_one_sample_and_one_id(stack: Stack, api: Api, diary: Diary) -> None:
    labels = {"route": "api/v1/jobs", "method": "POST", "status": "200"}
    before = figure(text(stack), "http_request_seconds_count", **labels) or 0.0
    answer = api.post("tests.note", diary.params("once", seconds=1.1), headers={"Prefer": "wait=20"})
    (line,) = eventually(lambda: _lines(stack, answer.headers["X-Request-Id"]))
    assert (line["event"], line["status"], answer.status_code) == ("request", 200, 200)
    assert line["milliseconds"] >= 1100, "the whole of it"
    assert figure(text(stack), "http_request_seconds_count", **labels) == before + 1


def test_a_caller_that_left_leaves_one_line_and_it_says_so(stack: Stack, api: Api, diary: Diary) -> None:
    with RawSubmit(stack, diary, "unheard", cost_class="heavy", held=True) as submit:
        submit.send_head(f"Content-Length: {len(submit.body)}", "Prefer: wait=30", "X-Request-Id: unheard-1")
        submit.send(submit.body)
        diary.wait_until_began("unheard")
        job_id = submit.leave()
    lines = eventually(lambda: [line for line in _lines(stack, "unheard-1") if line["event"].startswith("request")])
    assert [line["event"] for line in lines] == ["request_left"]
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"


def _lines(stack: Stack, request_id: str) -> list[dict[str, Any]]:
    """Of the web's log."""
    return [json.loads(line) for line in stack.log("web").read_text().splitlines() if f'"{request_id}"' in line]


MANY_ENOUGH = 24  # for each of four processes to have some


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_of_a_web_process_that_ends_nobody_who_waits_is_left_hanging(
    stack: Stack, api: Api, diary: Diary, how: signal.Signals
) -> None:
    """Told what is known, or closed; those of the other processes wait on, and the job goes on (P38)."""
    job_id = api.submit("tests.note", diary.params(f"awaited{how}", cost_class="heavy", held=True))
    diary.wait_until_began(f"awaited{how}")
    told = Counter(asyncio.run(_waits_while_one_ends(stack, job_id, diary, how)))
    print(f"of {MANY_ENOUGH} who waited:", told)
    early = (200, "running") if how == signal.SIGTERM else CLOSED
    assert early in told, "of the one that ended"
    assert set(told) <= {early, (200, "succeeded")}
    assert api.job(job_id)["state"] == "succeeded"


async def _waits_while_one_ends(stack: Stack, job_id: str, diary: Diary, how: signal.Signals) -> list[tuple[int, str]]:
    """The one that most of them came to."""
    before = {pid: _connections(pid) for pid in serving(stack)}
    waiting = [asyncio.create_task(_told(stack, job_id)) for _ in range(MANY_ENOUGH)]
    async with asyncio.timeout(60):
        while sum(_connections(pid) - many for pid, many in before.items()) < MANY_ENOUGH:
            await asyncio.sleep(0.05)
        most = max(before, key=lambda pid: _connections(pid) - before[pid])
        os.kill(most, how)
        while lives(most) or len(set(serving(stack)) - {most}) < len(before):  # and another is in its place
            await asyncio.sleep(0.05)
        diary.open_gate()
        return await asyncio.gather(*waiting)


def _connections(pid: int) -> int:
    return sum(connection.status == "ESTABLISHED" for connection in psutil.Process(pid).net_connections("tcp"))


async def _told(stack: Stack, job_id: str) -> tuple[int, str]:
    """The status and the job's state."""
    try:
        status, body = await _get(
            stack, f"/api/v1/jobs/{job_id}", f"Authorization: Bearer {stack.key}", "Prefer: wait=60"
        )
    except (ConnectionError, ValueError, IndexError):  # nothing came, or no whole head
        return CLOSED
    return status, json.loads(body)["state"]


def test_who_waits_is_told_what_is_known_when_the_web_is_stopped(stack: Stack, api: Api, diary: Diary) -> None:
    """A stop is no disconnect: the job goes on (P38)."""
    _fill_the_class(api, diary)
    with ExitStack() as connected:
        submit = connected.enter_context(RawSubmit(stack, diary, "stopped", cost_class="heavy"))
        submit.send_head(f"Content-Length: {len(submit.body)}", "Prefer: wait=60")
        submit.send(submit.body)
        job_id = str(eventually(lambda: job_of(stack.database_url, submit.submission)))
        with afflicted(diary.history, stack, Away("web")):
            status, job = submit.answer()
            assert (status, job["id"], job["state"]) == (202, job_id, "queued")
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"
