"""Children that are replaced after each job: none lost, none hung."""

import pytest

from tests.acceptance.diary import Diary
from tests.api_client import Api

SHORT, FULL = 60, 500
# What some of them do instead of ending well, and what is then to be read.
ODD = {"always raise": "failed", "run out of memory": "failed", "exit": "failed"}
# What others use besides: libraries and connections that a fork could break.
BUSY = ("use numpy", "use the database", "use Redis")


@pytest.mark.timeout(3600)
def test_every_job_ends_as_it_should_on_children_that_live_for_one_job(api: Api, diary: Diary, full: bool) -> None:
    odd = list(ODD)
    expected: dict[str, str] = {}
    for number in range(FULL if full else SHORT):
        if number % 5 == 4:
            how = odd[number // 5 % len(odd)]
            expected[api.submit("tests.behave", {"how": how})] = ODD[how]
        elif number % 5 == 3:
            how = BUSY[number // 5 % len(BUSY)]
            expected[api.submit("tests.behave", {"how": how})] = "succeeded"
        else:
            params = diary.params(f"n{number}", cost_class="heavy")
            expected[api.submit("tests.note", params)] = "succeeded"
    assert {job_id: api.ended(job_id, 240)["state"] for job_id in expected} == expected
    pids = [body.pid for body in diary.begins()]
    assert len(pids) == len(set(pids)), "each body had a child of its own"
    assert len(diary.began()) == len(set(diary.began()))
