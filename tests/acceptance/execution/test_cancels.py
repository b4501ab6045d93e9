"""A cancel of a running job ends it, and never another (P19, P20)."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.execution.conftest import attempts_of, told_to_the_tracker
from tests.acceptance.times import Times
from tests.api_client import Api
from tests.waiting import eventually

BEYOND = 2.0  # a beat and the grace
SHORT_RACES, FULL_RACES = 300, 10_000
# What a cancel meets, drawn anew for each job. Some jobs nobody cancels.
MET = ("polite", "polite", "swallow for a while", "compute in C for a while", "bystander")


@pytest.mark.parametrize("how", ["loop", "swallow", "hold the GIL", "read a socket"])
def test_a_running_job_is_ended_by_its_cancel(stack: Stack, api: Api, times: Times, how: str) -> None:
    bound = times.beat + times.limit_grace + BEYOND
    job_id = api.submit("tests.behave", {"how": how})
    api.in_state(job_id, "running")
    asked = time.monotonic()
    first, second = api.cancel(job_id), api.cancel(job_id)
    for answer in (first, second):
        assert answer.status_code == (200 if answer.json()["state"] == "cancelled" else 202), (
            "it may have ended by then"
        )
    assert first.json()["cancel_requested_at"] == second.json()["cancel_requested_at"]
    job = api.ended(job_id, bound)
    assert time.monotonic() - asked <= bound
    assert (job["state"], job["error"], job["result"], job["attempt"]) == ("cancelled", None, None, 1)
    assert told_to_the_tracker(stack, job_id) == [], "it is nobody's failure"


def test_a_job_that_waits_for_its_next_attempt_is_cancelled_at_once_and_has_none(stack: Stack, api: Api) -> None:
    job_id = api.submit("tests.behave", {"how": "come back later"})
    eventually(lambda: api.job(job_id)["failures"] == 1)
    answer = api.cancel(job_id)
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    job = api.job(job_id)
    assert (job["state"], job["attempt"], job["failures"]) == ("cancelled", 1, 1)
    assert [row[1] for row in attempts_of(stack, job_id)] == ["retried"]


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
def test_cancels_race_with_claims_and_ends(api: Api, diary: Diary, times: Times, full: bool) -> None:
    """Each answer agrees with the end: 200 is said of a cancelled job, 202 of one that will be, 409 of a success."""
    rounds = FULL_RACES if full else SHORT_RACES
    with ThreadPoolExecutor(6) as pool:
        races = list(pool.map(lambda number: _race(api, diary, times, number), range(rounds)))
    seen: dict[str, Counter[str]] = {met: Counter() for met in MET}
    for met, outcome in races:
        seen[met][outcome] += 1
    print({met: dict(outcomes) for met, outcomes in seen.items()})
    assert not any(outcomes["wrong"] for outcomes in seen.values())
    assert set(seen["bystander"]) <= {"had succeeded", "refused"}
    for met in set(MET) - {"bystander"}:
        for outcome in ("cancelled in the queue", "cancelled while it ran", "had succeeded"):
            assert seen[met][outcome] >= rounds // 100, f"too few of: {outcome} of {met}"
    names = diary.began()
    assert len(names) == len(set(names)), "no body ran twice"


def _race(api: Api, diary: Diary, times: Times, number: int) -> tuple[str, str]:
    """What was met, and how it went."""
    met = MET[number % len(MET)]
    if met in {"polite", "bystander"}:
        response = api.post("tests.note", diary.params(f"r{number}", seconds=0.1, cost_class="light"))
    else:  # some end within the grace, some are ended at its end
        [seconds] = random.choices([0.1, 0.3, times.limit_grace + 0.2], [10, 10, 5 / times.limit_grace])
        behave = {"how": met, "seconds": seconds, "cost_class": "light"}
        response = api.post("tests.behave", behave, timeout_seconds=30)  # on a busy machine C code takes its time
    if response.status_code == 503:
        return met, "refused"
    job_id = response.json()["id"]
    if met == "bystander":
        return met, "had succeeded" if api.ended(job_id, 30)["state"] == "succeeded" else "wrong"
    _wait_a_while(api, job_id)
    answer = api.cancel(job_id)
    job = api.ended(job_id, 30)
    outcome = _outcome(answer, job)
    if outcome == "wrong":
        print(f"{met}: {answer.status_code} {answer.text}\n{job}")
    return met, outcome


def _wait_a_while(api: Api, job_id: str) -> None:
    """The race itself: before its start, in its run or after it, and always about one of the two."""
    about = random.choice(["", "running", "succeeded"])
    if about:
        eventually(lambda: api.job(job_id)["state"] in {about, "succeeded", "failed", "expired"}, 60, 0.05)
    time.sleep(random.uniform(0, 0.1))


def _outcome(answer: httpx.Response, job: dict[str, Any]) -> str:
    told = answer.json().get("state")  # a 409 is a problem, and has the job within
    match answer.status_code, told, job["state"]:
        case (200, "cancelled", "cancelled") | (202, "running", "cancelled"):
            return "cancelled while it ran" if job["attempt"] else "cancelled in the queue"
        case 409, None, "succeeded":
            return "had succeeded"
    return "wrong"
