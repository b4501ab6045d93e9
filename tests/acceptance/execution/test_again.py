"""Attempts that fail or get lost: tried again as often as is right, and no oftener (P25, P26)."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack.local import Stack
from tests import processes
from tests.acceptance.diary import Diary
from tests.acceptance.execution.conftest import attempts_of, told_to_the_tracker
from tests.acceptance.figures import counted
from tests.acceptance.times import Times
from tests.api_client import Api
from tests.history.nemesis import KillNode, PauseNode, afflicted
from tests.waiting import eventually

ALLOWANCE = 3.0  # for a keeper and Celery to start on a busy machine


def test_an_exception_is_tried_again_until_the_attempts_are_used_and_callers_read_its_class_only(
    stack: Stack, api: Api
) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "always raise"}))
    assert (job["state"], job["attempt"], job["failures"]) == ("failed", 3, 3)
    assert job["error"] == {
        "code": "handler_error",
        "message": "RuntimeError",
        "retryable": True,
        "stopped_by": "attempts",
        "details": None,
    }
    rows = attempts_of(stack, job["id"])
    assert [row[1] for row in rows] == ["retried", "retried", "failed"]
    assert all("a secret that callers must not read" in row[3] for row in rows)


def test_an_error_tracker_is_told_of_each_attempt_that_failed(stack: Stack, api: Api) -> None:
    """By the child; by the keeper where the child did not live to tell."""
    raises = api.ended(api.submit("tests.behave", {"how": "always raise"}))["id"]
    assert told_to_the_tracker(stack, raises) == [(1, "RuntimeError"), (2, "RuntimeError"), (3, "RuntimeError")]
    stuck = api.ended(api.submit("tests.behave", {"how": "swallow"}, timeout_seconds=0.5))["id"]
    assert eventually(lambda: told_to_the_tracker(stack, stuck)) == [(1, "JobTimeout")]


def test_a_fail_is_read_by_callers_and_not_tried_again(api: Api) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "fail"}))
    assert job["attempt"] == 1
    assert job["error"] == {
        "code": "no_route",
        "message": "There is no way from a to b.",
        "retryable": False,
        "stopped_by": "not_retryable",
        "details": {"from": "a", "to": "b"},
    }


def test_a_handler_may_say_when(api: Api) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "say when"}))
    assert (job["state"], job["attempt"], job["failures"]) == ("succeeded", 2, 1)


def test_no_attempt_meets_a_process_of_the_one_before(api: Api, word: Path) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "leave a daemon and come back", "note": str(word)}))
    assert (job["state"], job["attempt"]) == ("succeeded", 3), job["error"]


@pytest.mark.parametrize("how", ["exit", "run out of memory"])
def test_what_is_not_worth_another_try_is_the_jobs_failure(api: Api, how: str) -> None:
    job = api.ended(api.submit("tests.behave", {"how": how}))
    assert (job["state"], job["attempt"], job["error"]["stopped_by"]) == ("failed", 1, "not_retryable")


def test_a_job_that_kills_its_process_each_time_is_poison(stack: Stack, api: Api) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "die"}), 30)
    assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "poison", 3)
    assert [row[1] for row in attempts_of(stack, job["id"])] == ["lost", "lost", "lost"]


def test_of_an_attempt_that_was_killed_no_file_is_seen(stack: Stack, api: Api) -> None:
    job = api.ended(api.submit("tests.behave", {"how": "die between two files"}), 30)
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert [one["name"] for one in job["artifacts"]] == ["last"]
    assert api.http.get(f"{stack.url}{job['artifacts'][0]['link']}").content == b"x"
    assert api.http.get(f"/jobs/{job['id']}/artifacts/first").status_code == 404


def test_a_type_may_forbid_a_second_start(api: Api) -> None:
    job = api.ended(api.submit("tests.once_only", {"how": "die"}))
    assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "worker_lost", 1)


def test_a_job_whose_whole_node_was_killed_runs_again(stack: Stack, api: Api, diary: Diary, times: Times) -> None:
    within = times.lease + times.sweep + ALLOWANCE
    job_id = api.submit("tests.note", diary.params("node", cost_class="heavy", held=True))
    diary.wait_until_began("node")
    with afflicted(diary.history, stack, KillNode("worker-heavy")):
        killed = time.monotonic()
        eventually(lambda: api.job(job_id)["state"] != "running" or api.job(job_id)["attempt"] == 2, within)
        assert time.monotonic() - killed <= within
        diary.open_gate()
        assert api.ended(job_id, 30)["state"] == "succeeded"
    assert diary.began() == ["node", "node"]


@dataclass(frozen=True)
class PauseUntilFenced(PauseNode):
    """Over when the body has ended, however long the rest of the node takes to be whole again."""

    body: int

    def recovered(self, stack: Stack) -> None:
        eventually(lambda: not processes.lives(self.body), 1.0 + 2.0)


@pytest.mark.timeout(300)
def test_the_body_of_a_node_that_was_paused_past_its_lease_ends_within_a_beat(
    stack: Stack, api: Api, diary: Diary, times: Times
) -> None:
    job_id = api.submit("tests.note", diary.params("paused", cost_class="heavy", held=True), timeout_seconds=120)
    diary.wait_until_began("paused")
    with afflicted(diary.history, stack, PauseUntilFenced("worker-heavy", diary.first("paused").pid)):
        eventually(lambda: api.job(job_id)["state"] == "queued", times.lease + times.sweep + ALLOWANCE)
    diary.open_gate()
    job = api.ended(job_id, 20)
    assert (job["state"], job["attempt"]) == ("succeeded", 2)


@pytest.mark.timeout(300)
def test_what_a_node_writes_that_was_paused_past_its_lease_changes_nothing(
    stack: Stack, api: Api, diary: Diary, times: Times
) -> None:
    """As it goes on, its body returns at once: it is ended by its keeper first, or its settle is a stale one."""
    job_id = api.submit("tests.note", diary.params("stale", cost_class="heavy", held=True), timeout_seconds=120)
    diary.wait_until_began("stale")
    stale = counted(stack, "stale_settles_total")
    with afflicted(diary.history, stack, PauseNode("worker-heavy")):
        eventually(lambda: api.job(job_id)["state"] == "queued", times.lease + times.sweep + ALLOWANCE)
        diary.open_gate()
        lost = attempts_of(stack, job_id)
    job = api.ended(job_id, 20)
    assert (job["state"], job["attempt"], job["failures"]) == ("succeeded", 2, 0)
    assert attempts_of(stack, job_id)[0] == lost[0]
    assert [row[1] for row in attempts_of(stack, job_id)] == ["lost", "succeeded"]
    assert counted(stack, "stale_settles_total") - stale <= len(diary.ended()) - 1, (
        "one that returned, if it came so far"
    )
