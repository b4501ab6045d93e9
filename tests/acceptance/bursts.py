"""Many submits at one moment."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.waiting import eventually


def submit_at_once(stack: Stack, diary: Diary, every_params: Sequence[dict[str, object]]) -> list[httpx.Response]:
    """One `tests.note` job each, over a connection each, all sent when the last of them is ready.

    Who is told `unavailable`, as a busy machine says in place of a verdict, asks again."""
    together = Barrier(len(every_params), timeout=60)
    with (
        Api(stack.url, stack.key, diary.history, timeout_seconds=30) as api,
        ThreadPoolExecutor(len(every_params)) as threads,
    ):

        def submit(params: dict[str, object]) -> httpx.Response:
            together.wait()
            return verdict(lambda: api.post("tests.note", params))

        return list(threads.map(submit, every_params))


def verdict(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer that is one."""
    answer = eventually(lambda: _unless_unavailable(ask()), 60)
    assert answer is not None
    return answer


def _unless_unavailable(response: httpx.Response) -> httpx.Response | None:
    unavailable = response.status_code == 503 and response.json()["code"] == "unavailable"
    return None if unavailable else response


def ids_of(responses: Sequence[httpx.Response]) -> list[str]:
    """The ids of those that were accepted."""
    return [response.json()["id"] for response in responses if response.status_code == 202]


def refusals_of(responses: Sequence[httpx.Response]) -> list[httpx.Response]:
    """Those that were not accepted, each checked to be a refusal that says when to come back."""
    refused = [response for response in responses if response.status_code != 202]
    for response in refused:
        assert response.status_code == 503, response.text
        assert 1 <= int(response.headers["Retry-After"]) <= 300
        assert response.json()["code"] == "queue_full"
    return refused
