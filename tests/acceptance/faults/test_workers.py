"""Children and keepers killed: their jobs run again, their places come back."""

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.faults.times import ALLOWANCE_SECONDS, LEASE_SECONDS, SWEEP_SECONDS
from tests.api_client import Api
from tests.history.nemesis import KillChild, KillKeeper, afflicted, busy_by
from tests.history.recorder import now
from tests.waiting import eventually

REQUEUED_SECONDS = 3.0  # after its child was killed
GONE_SECONDS = 3.0  # for all of a node, after its keeper was killed
BACK_SECONDS = 10.0  # after its child was killed, or its node is there again: until both processes run jobs at once


def test_the_job_of_a_killed_child_is_requeued_within_seconds_and_both_processes_work_again(
    stack: Stack, api: Api, diary: Diary
) -> None:
    job_id = api.submit("tests.note", diary.params("victim", cost_class="heavy", held=True))
    diary.wait_until_began("victim")
    with afflicted(diary.history, stack, KillChild("worker-heavy", busy_by(diary.history))) as killed:
        killed_at = now()
        assert killed[0] == diary.first("victim").pid
        eventually(lambda: _is_given_back(api, job_id), REQUEUED_SECONDS)
        diary.open_gate()
        diary.both_processes_work(api, killed_at + BACK_SECONDS - now())
        assert api.ended(job_id)["state"] == "succeeded"
    assert diary.began().count("victim") == 2


def test_a_killed_keeper_takes_celery_with_it_and_its_jobs_are_requeued_within_lease_and_sweep(
    stack: Stack, api: Api, diary: Diary
) -> None:
    jobs = [api.submit("tests.note", diary.params(f"k{i}", cost_class="heavy", held=True)) for i in range(2)]
    queued = api.submit("tests.note", diary.params("queued", cost_class="heavy"))
    diary.wait_until_began("k0", "k1")
    keeper, asked = stack.pid("worker-heavy"), now()
    with afflicted(diary.history, stack, KillKeeper("worker-heavy")) as tree:
        assert now() - asked < GONE_SECONDS, "all of them ended"
        assert {keeper, *(diary.first(name).pid for name in ("k0", "k1"))} < set(tree)
        within = LEASE_SECONDS + SWEEP_SECONDS + ALLOWANCE_SECONDS
        eventually(lambda: all(_is_given_back(api, job_id) for job_id in jobs), within)
        diary.open_gate()
        assert {api.ended(job_id, 30)["state"] for job_id in [*jobs, queued]} == {"succeeded"}
        assert stack.pid("worker-heavy") != keeper, "the process manager brought the worker back"
        stack.wait_ready(30)
    diary.both_processes_work(api, BACK_SECONDS)
    assert diary.began().count("k0") == diary.began().count("k1") == 2


def _is_given_back(api: Api, job_id: str) -> bool:
    job = api.job(job_id)
    return bool(job["state"] == "queued" or job["attempt"] == 2)
