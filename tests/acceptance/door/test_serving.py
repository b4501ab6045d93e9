"""One port for all: callers that send slowly hold up nobody, and whoever is refused can read why."""

import time
from collections.abc import Callable
from contextlib import ExitStack

import httpx
import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.raw_http import RawRequest
from tests.acceptance.raw_submits import RawSubmit
from tests.api_client import Api
from tests.waiting import eventually

SLOW_CALLERS, QUICK_CALLS = 40, 5
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds; this machine may be busy


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


def test_forty_callers_that_send_slowly_hold_up_nobody_and_are_served_in_the_end(
    stack: Stack, api: Api, diary: Diary
) -> None:
    submits = [RawSubmit(stack, diary, f"slow{i}", cost_class="heavy") for i in range(SLOW_CALLERS)]
    with ExitStack() as connected:
        for submit in submits:
            connected.enter_context(submit)
            submit.send_head(f"Content-Length: {len(submit.body)}")
            submit.send(submit.body[:-1])
        for number in range(QUICK_CALLS):
            _in_time(lambda: api.http.get(f"{stack.url}/healthz"), 200)
            _in_time(lambda: api.post("tests.note", diary.params(f"quick{number}")), 202)  # noqa: B023  called at once
            api.drained("light")
        for submit in submits:
            submit.send(submit.body[-1:])
        assert {submit.answer()[0] for submit in submits} == {202}
    eventually(lambda: len(diary.ended()) == SLOW_CALLERS + QUICK_CALLS, 30)


def _in_time(ask: Callable[[], httpx.Response], status: int) -> None:
    began = time.monotonic()
    assert ask().status_code == status
    assert time.monotonic() - began < ANSWERED_SECONDS


def test_a_body_in_chunks_is_taken(stack: Stack, api: Api, diary: Diary) -> None:
    with RawSubmit(stack, diary, "chunks") as submit:
        submit.send_head("Transfer-Encoding: chunked")
        for piece in (submit.body[:10], submit.body[10:30], submit.body[30:]):
            submit.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        submit.send(b"0\r\n\r\n")
        status, job = submit.answer()
    assert status == 202
    assert api.ended(str(job["id"]))["state"] == "succeeded"


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_body_that_is_too_large_is_told_so_by_an_answer_that_can_be_read(
    stack: Stack, diary: Diary, says_its_length: bool
) -> None:
    """Sent whole, as ordinary clients do before they read."""
    body = b'{"type": "' + b"x" * 4_000_000 + b'"}'
    with RawSubmit(stack, diary, "large") as submit:
        if says_its_length:
            submit.send_head(f"Content-Length: {len(body)}")
            submit.send(body)
        else:
            submit.send_head("Transfer-Encoding: chunked")
            submit.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        status, problem = submit.answer()
    assert (status, problem["code"]) == (413, "too_large")
    assert str(len(body)) in problem["detail"]


def test_a_caller_that_goes_before_its_request_is_whole_makes_no_job(stack: Stack, api: Api, diary: Diary) -> None:
    with RawSubmit(stack, diary, "gone") as submit:
        submit.send_head(f"Content-Length: {len(submit.body)}")
        submit.send(submit.body[:-1])
    after = api.submit("tests.note", diary.params("after"))
    assert api.ended(after)["state"] == "succeeded"
    assert diary.began() == ["after"]


@pytest.mark.parametrize("key", [None, "made-up"])
def test_a_stranger_is_refused_by_an_answer_that_can_be_read_and_nothing_it_sends_is_kept(
    stack: Stack, key: str | None
) -> None:
    """A batch of 4 MB, sent whole, as ordinary clients do before they read."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    refused = httpx.post(f"{stack.url}/api/v1/batches", content=b"x" * 4_000_000, headers=headers, trust_env=False)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert refused.headers["WWW-Authenticate"] == "Bearer"


def test_a_hundred_strangers_that_begin_large_bodies_take_no_room_from_who_has_a_key(
    stack: Stack, api: Api, diary: Diary
) -> None:
    """All that they say they will send is more than four web processes hold, and they are told before they do."""
    with ExitStack() as connected:
        strangers = [connected.enter_context(RawRequest(stack)) for _ in range(100)]
        for stranger in strangers:
            stranger.head("POST", "/api/v1/batches", f"Content-Length: {4 * 2**20}", key="made-up")
            stranger.send(b" " * 100_000)
        for number in range(QUICK_CALLS):
            _in_time(lambda: api.post("tests.note", diary.params(f"quick{number}")), 202)  # noqa: B023  called at once
            api.drained("light")
        assert {stranger.answer()[0] for stranger in strangers} == {401}
