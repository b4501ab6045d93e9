"""The fair door on four web processes (P10a). Last in this folder: for a minute after it its clients count as others that want room of class heavy."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from stack.local import Stack
from tests.acceptance.clients import make_client
from tests.acceptance.conftest import HEAVY_WAITING
from tests.acceptance.diary import Diary
from tests.api_client import Api

SLOTS, RUN_SECONDS = 2, 0.2
SECONDS, THREADS = 8.0, 32
EVERY_SECONDS = RUN_SECONDS / SLOTS / 0.2  # a fifth of what the slots can do


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@pytest.fixture
def small(stack: Stack, diary: Diary) -> Api:
    """A client of its own beside the one of `api`."""
    return Api(stack.url, make_client(stack, "small"), diary.history)


def test_a_small_client_beside_32_threads_that_obey_retry_after_is_hardly_ever_refused(
    stack: Stack, api: Api, small: Api, diary: Diary
) -> None:
    """One of ten jobs a second that two slots can do in the end is what it wants two of; the threads want all there is."""
    over = threading.Event()
    with small, ThreadPoolExecutor(THREADS) as pool:
        told_small = Counter([_asked(small, diary, "small-0")])
        flood = [pool.submit(_obeying, api, diary, f"flood-{number}", over) for number in range(THREADS)]
        for number in range(1, int(SECONDS / EVERY_SECONDS) + 1):
            over.wait(EVERY_SECONDS)  # nobody sets it: the pace of the small one
            told_small[_asked(small, diary, f"small-{number}")] += 1
        over.set()
        told_flood = sum((thread.result(60) for thread in flood), Counter[str]())
    print(f"small {dict(told_small)}, flood {dict(told_flood)}")
    refused = sum(told_small.values()) - told_small["admitted"]
    assert refused < 0.05 * sum(told_small.values())
    assert told_flood["share_full"] >= THREADS
    assert told_flood["admitted"] > (HEAVY_WAITING + SLOTS) / 2, "it had its share, and what it drained"
    api.drained("heavy", 30)


def _obeying(api: Api, diary: Diary, name: str, over: threading.Event) -> Counter[str]:
    told = Counter[str]()
    number = 0
    while not over.is_set():
        number += 1
        told[_asked(api, diary, f"{name}-{number}", over.wait)] += 1
    return told


def _asked(api: Api, diary: Diary, name: str, pause: Callable[[float], object] = time.sleep) -> str:
    """What was said: `admitted`, or why not, and then the pause that was told."""
    response = api.post("tests.note", diary.params(name, seconds=RUN_SECONDS, cost_class="heavy"))
    if response.status_code == 202:
        return "admitted"
    assert response.status_code == 503, response.text
    pause(float(response.headers["Retry-After"]))
    return str(response.json()["code"])
