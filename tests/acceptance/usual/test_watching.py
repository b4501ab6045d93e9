"""Every acceptance test is watched: one whose history does not hold fails, though its own claims are true."""

from pathlib import Path

import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.events import BodyBegan
from tests.history.recorder import History, now
from tests.history.watch import judged


def test_a_body_that_no_attempt_knows_is_told_in_a_sentence(
    stack: Stack, api: Api, diary: Diary, tmp_path: Path
) -> None:
    job_id = api.submit("tests.note", diary.params("watched"))
    api.ended(job_id)
    judged(diary.history, stack).must_hold()

    tampered = History(tmp_path / "tampered.jsonl")
    for event in [*diary.history.events(), BodyBegan(job_id, 2, 1, True, now())]:
        tampered.append(event)
    with pytest.raises(AssertionError, match=f"unrecorded_start: attempt 2 of {job_id} in process 1 ran"):
        judged(tampered, stack).must_hold()


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="the watching finds what the test put into its history")
def test_a_test_with_a_bad_history_fails(api: Api, history: History) -> None:
    job_id = api.submit("tests.note")
    api.ended(job_id)
    history.append(BodyBegan(job_id, 2, 1, True, now()))
