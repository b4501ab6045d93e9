"""A Celery that stands still beside work is replaced after a minute (P24)."""

import time

import pytest

from stack.failures import StackError
from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.nemesis import PauseParent, afflicted
from tests.history.nodes import node
from tests.waiting import eventually
from workers.consumption import STUCK_SECONDS


@pytest.mark.timeout(240)
def test_what_a_celery_that_stands_still_ran_is_released_and_what_waits_is_run(
    stack: Stack, api: Api, diary: Diary, full: bool
) -> None:
    if not full:
        pytest.skip("It lasts more than a minute; --full runs it.")
    running = api.submit("tests.note", diary.params("running", cost_class="heavy", held=True))
    diary.wait_until_began("running")
    still = node(stack, "worker-heavy")
    with afflicted(diary.history, stack, PauseParent("worker-heavy")):
        waiting = [api.submit("tests.note", diary.params(f"w{i}", cost_class="heavy")) for i in range(3)]
        submitted_at = time.monotonic()
        eventually(lambda: _is_replaced(stack, still.keeper), STUCK_SECONDS + 30)
    assert time.monotonic() - submitted_at >= STUCK_SECONDS - 5, "it looks at its broker every few seconds"
    diary.open_gate()
    assert {api.ended(job_id, 60)["state"] for job_id in [running, *waiting]} == {"succeeded"}
    job = api.job(running)
    assert (job["attempt"], job["failures"]) == (2, 0)
    assert diary.began().count("running") == 2
    diary.close_gate()


def _is_replaced(stack: Stack, keeper: int) -> bool:
    try:
        return stack.pid("worker-heavy") != keeper
    except StackError:
        return False
