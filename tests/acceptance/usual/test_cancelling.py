"""Cancel: what is queued never runs, what runs ends as cancelled once the 202 was given."""

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.operator import operator
from tests.api_client import Api
from tests.history.nemesis import Away, afflicted


def test_what_is_cancelled_or_expires_while_every_worker_is_down_never_runs(
    stack: Stack, api: Api, diary: Diary
) -> None:
    with afflicted(diary.history, stack, Away("worker-heavy")):
        cancelled = api.submit("tests.note", diary.params("cancelled", cost_class="heavy"))
        expired = api.submit("tests.note", diary.params("expired", cost_class="heavy"), max_wait_seconds=0.5)
        kept = api.submit("tests.note", diary.params("kept", cost_class="heavy"))
        assert api.cancel(cancelled).status_code == 200
        assert api.in_state(expired, "expired")["error"]["code"] == "max_wait"
    # First in, first out: a body of the others would have begun before this one ended.
    assert api.ended(kept)["state"] == "succeeded"
    assert diary.began() == ["kept"]
    assert api.job(cancelled)["state"] == "cancelled"
    assert api.job(expired)["state"] == "expired"


def test_a_running_job_that_is_cancelled_is_ended_and_a_repeated_cancel_changes_nothing(api: Api, diary: Diary) -> None:
    job_id = api.submit("tests.note", diary.params("running", held=True))
    diary.wait_until_began("running")

    first, second = api.cancel(job_id), api.cancel(job_id)
    assert first.status_code == 202
    assert second.status_code == (202 if second.json()["state"] == "running" else 200), "its end may come between"
    assert first.json()["cancel_requested_at"] == second.json()["cancel_requested_at"] is not None

    job = api.ended(job_id)
    assert (job["state"], job["result"], job["error"]) == ("cancelled", None, None)
    assert diary.ended() == [], "its body was ended before its end"
    third = api.cancel(job_id)
    assert (third.status_code, third.json()["cancel_requested_at"]) == (200, job["cancel_requested_at"])


def test_an_operator_cancels_a_running_job_in_the_admin(stack: Stack, api: Api, diary: Diary) -> None:
    job_id = api.submit("tests.note", diary.params("running", held=True))
    diary.wait_until_began("running")
    with operator(stack, diary.history) as admin:
        admin.cancel(job_id)
    job = api.ended(job_id)
    assert (job["state"], job["attempt"], job["error"]) == ("cancelled", 1, None)
    assert diary.ended() == [], "its body was ended before its end"


def test_a_failure_after_the_202_ends_as_cancelled_too(api: Api, diary: Diary) -> None:
    job_id = api.submit("tests.note", diary.params("fails", held=True, fails=True))
    diary.wait_until_began("fails")
    assert api.cancel(job_id).status_code == 202
    diary.open_gate()
    job = api.ended(job_id)
    assert (job["state"], job["error"]) == ("cancelled", None)


def test_a_success_that_was_stored_before_the_cancel_stays_one(api: Api, diary: Diary) -> None:
    job_id = api.submit("tests.note", diary.params("done"))
    api.ended(job_id)
    answer = api.cancel(job_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_cancellable")
    assert answer.json()["job"]["result"] == {"name": "done"}
