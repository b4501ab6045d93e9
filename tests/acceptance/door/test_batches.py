"""Batches on four web processes and real workers: results by the deadline, one key space with jobs, callers who leave."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx
import pytest

from stack.local import Stack
from tests.acceptance import batches, records
from tests.acceptance.diary import Diary
from tests.acceptance.raw_submits import RawSubmit
from tests.api_client import Api
from tests.waiting import eventually

ANSWERED_SECONDS = 2.0  # an answer needs milliseconds; this machine may be busy
CALLERS = 24


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


def test_a_batch_that_is_waited_for_is_answered_with_all_its_results(api: Api, diary: Diary) -> None:
    items = {f"n{number}": diary.params(f"n{number}", seconds=0.1, cost_class="heavy") for number in range(6)}
    answer = batches.post(api, diary, items, {"Prefer": "wait=20"})
    told = answer.json()
    assert (answer.status_code, told["state"], told["partial"]) == (200, "finished", False)
    assert {name: result["data"] for name, result in told["results"].items()} == {
        name: {"name": name} for name in items
    }
    assert answer.headers["Preference-Applied"] == "wait=20"
    assert api.job(told["jobs"]["n0"])["links"]["batch"] == told["links"]["self"] == answer.headers["Location"]


def test_at_the_deadline_the_caller_has_what_was_done_by_then_and_the_rest_is_cancelled(api: Api, diary: Diary) -> None:
    items = {"quick": diary.params("quick"), "slow": diary.params("slow", cost_class="heavy", held=True)}
    began = time.monotonic()
    answer = batches.post(api, diary, items, {"Prefer": "wait=20"}, deadline_seconds=2.5)
    took, told = time.monotonic() - began, answer.json()
    batches.cut_off(diary, told["jobs"]["slow"])
    assert 2.5 <= took <= 2.5 + ANSWERED_SECONDS
    assert (answer.status_code, told["state"], told["partial"]) == (200, "finished", True)
    assert told["results"]["quick"]["data"] == {"name": "quick"}
    assert told["results"]["slow"]["error"]["code"] == "deadline_exceeded"
    assert api.in_state(told["jobs"]["slow"], "cancelled")["attempt"] == 1
    assert _batch(api, told["id"]) == {name: value for name, value in told.items() if name != "room"}


def test_a_batch_that_nobody_reads_is_sealed_at_its_deadline_too(stack: Stack, api: Api, diary: Diary) -> None:
    """By a sweep, which the keepers run here."""
    items = {"left": diary.params("left", cost_class="heavy", held=True)}
    told = batches.post(api, diary, items, deadline_seconds=1.5).json()
    batches.cut_off(diary, told["jobs"]["left"])
    assert api.in_state(told["jobs"]["left"], "cancelled", within_seconds=15)
    assert _batch(api, told["id"])["results"]["left"]["error"]["code"] == "deadline_exceeded"


def test_a_batch_is_admitted_whole_or_not_at_all_and_each_by_itself_to_the_last_place(api: Api, diary: Diary) -> None:
    """Two slots and three places."""
    six = {f"w{number}": diary.params(f"w{number}", held=True) for number in range(6)}
    whole = batches.post(api, diary, six)
    assert (whole.status_code, whole.json()["code"]) == (422, "batch_too_large")
    some = batches.post(api, diary, {name.replace("w", "s"): params for name, params in six.items()}, atomic=False)
    assert (some.status_code, some.json()["counts"]["refused"], some.json()["room"]) == (202, 1, {"light": 0})
    full = batches.post(api, diary, {"full": diary.params("full")})
    assert (full.status_code, full.json()["code"], full.json()["room"]) == (503, "queue_full", 0)
    assert int(full.headers["Retry-After"]) >= 1
    diary.open_gate()
    eventually(lambda: _batch(api, some.json()["id"])["state"] == "finished", 20)
    assert _batch(api, some.json()["id"])["counts"]["ok"] == 5


def test_of_jobs_and_batches_that_come_with_one_key_at_once_one_is_accepted(api: Api, diary: Diary) -> None:
    """P6: nobody waits for ever, and all the others are told what it was, or that it was another."""
    for key in ("first", "second", "third"):
        together = Barrier(CALLERS)
        alone = diary.params(f"{key}-alone", cost_class="heavy")
        items = {f"{key}-{name}": diary.params(f"{key}-{name}", cost_class="heavy") for name in "ab"}

        def submit(
            number: int, together: Barrier = together, key: str = key, alone: Any = alone, items: Any = items
        ) -> httpx.Response:
            together.wait(30)
            return batches.post(api, diary, items, key=key) if number % 2 else api.post("tests.note", alone, key=key)

        with ThreadPoolExecutor(CALLERS) as callers:
            answers = list(callers.map(submit, range(CALLERS)))
        told = Counter((answer.status_code, answer.headers.get("Idempotency-Replayed")) for answer in answers)
        print(f"told: {dict(told)}")
        assert told.keys() <= {(202, None), (202, "true"), (409, None), (422, None)}
        assert told[202, None] == 1
        assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
        assert {a.json()["code"] for a in answers if a.status_code == 422} == {"idempotency_mismatch"}
    api.drained("heavy")


def test_the_queued_jobs_of_a_caller_that_left_its_batch_are_cancelled(stack: Stack, api: Api, diary: Diary) -> None:
    held = {f"h{number}": diary.params(f"h{number}", cost_class="heavy", held=True) for number in range(2)}
    batches.post(api, diary, held)
    diary.wait_until_began("h0", "h1")
    with _Leaving(stack, diary, "left", cost_class="heavy") as submit:
        submit.send_head(f"Content-Length: {len(submit.body)}", "Prefer: wait=30")
        submit.send(submit.body)
        job_id = submit.leave()
    batches.cut_off(diary, job_id)
    eventually(lambda: api.job(job_id)["state"] == "cancelled")
    diary.open_gate()
    assert records.job_of(stack.database_url, f"{diary.history.name}/left") == job_id


class _Leaving(RawSubmit):
    """One job, in a batch."""

    address = "/api/v1/batches"

    def __init__(self, stack: Stack, diary: Diary, name: str, **params: Any) -> None:
        super().__init__(stack, diary, name, **params)
        self.body = json.dumps({"jobs": {name: json.loads(self.body)}}).encode()


def _batch(api: Api, batch_id: str) -> dict[str, Any]:
    answer = api.http.get(f"/batches/{batch_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
