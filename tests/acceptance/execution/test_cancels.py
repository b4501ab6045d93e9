"""A cancel of a running job ends it, and never another (P19, P20)."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.acceptance.diary import Diary
from tests.api_client import Api

BEAT, GRACE = 1.0, 0.5
BOUND = BEAT + GRACE + 2.0
SHORT_RACES = 150
FULL_RACES = 10_000


@pytest.mark.parametrize("how", ["loop", "swallow", "hold the GIL", "read a socket"])
def test_a_running_job_is_ended_by_its_cancel(api: Api, how: str) -> None:
    job_id = api.submit("tests.behave", {"how": how})
    api.in_state(job_id, "running")
    asked = time.monotonic()
    first, second = api.cancel(job_id), api.cancel(job_id)
    for answer in (first, second):
        assert answer.status_code == (200 if answer.json()["state"] == "cancelled" else 202), (
            "it may have ended by then"
        )
    assert first.json()["cancel_requested_at"] == second.json()["cancel_requested_at"]
    job = api.ended(job_id, BOUND)
    assert time.monotonic() - asked <= BOUND
    assert (job["state"], job["error"], job["result"], job["attempt"]) == ("cancelled", None, None, 1)


def test_a_cancel_is_not_followed_by_a_retry(api: Api) -> None:
    """The type has attempts left, but after a 202 the only end is `cancelled`."""
    job_id = api.submit("tests.behave", {"how": "always raise"})
    api.in_state(job_id, "queued", 5)
    while (answer := api.cancel(job_id)).status_code == 409:
        pytest.fail("it had ended before it could be cancelled")
    job = api.ended(job_id)
    assert job["state"] == "cancelled", answer.text


def test_the_job_beside_a_cancelled_one_is_not_touched(api: Api, diary: Diary) -> None:
    victim = api.submit("tests.behave", {"how": "hold the GIL"})
    beside = api.submit("tests.note", diary.params("beside", cost_class="heavy", held=True))
    diary.wait_until_began("beside")
    api.cancel(victim)
    assert api.ended(victim)["state"] == "cancelled"
    diary.open_gate()
    assert api.ended(beside)["state"] == "succeeded"
    assert diary.began() == ["beside"]


@pytest.mark.timeout(3600)
def test_cancels_race_with_claims_and_ends(api: Api, diary: Diary, full: bool) -> None:
    """Each answer agrees with the end: 200 is said of a cancelled job, 202 of one that will be, 409 of a success."""
    rounds = FULL_RACES if full else SHORT_RACES
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def race(number: int) -> None:
        response = api.post("tests.note", diary.params(f"r{number}", seconds=0.1, cost_class="light"))
        if response.status_code == 503:
            outcome = "refused"
        else:
            job_id = response.json()["id"]
            time.sleep(random.uniform(0, 0.4))  # the race itself: before, in and after its run
            answer = api.cancel(job_id)
            job = api.ended(job_id)
            outcome = _outcome(answer, job)
            if outcome == "wrong":
                print(f"{answer.status_code} {answer.text}\n{job}")
        with lock:
            seen[outcome] += 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(race, range(rounds)))

    print(dict(seen))
    assert seen["wrong"] == 0
    for outcome in ("cancelled in the queue", "cancelled while it ran", "had succeeded"):
        assert seen[outcome] >= rounds // 60, f"too few of: {outcome}"
    names = diary.began()
    assert len(names) == len(set(names)), "no body ran twice"


def _outcome(answer: httpx.Response, job: dict[str, Any]) -> str:
    told = answer.json().get("state")  # a 409 is a problem, and has the job within
    match answer.status_code, told, job["state"]:
        case (200, "cancelled", "cancelled") | (202, "running", "cancelled"):
            return "cancelled while it ran" if job["attempt"] else "cancelled in the queue"
        case 409, None, "succeeded":
            return "had succeeded"
    return "wrong"
