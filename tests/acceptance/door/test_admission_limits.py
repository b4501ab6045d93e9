"""The door of a class on four web processes: never one job too many, never one too few."""

import pytest

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.bursts import ids_of, refusals_of, submit_at_once
from tests.acceptance.conftest import HEAVY_WAITING, LIGHT_WAITING
from tests.acceptance.diary import Diary
from tests.acceptance.figures import counted, processes_that_counted
from tests.api_client import Api
from tests.waiting import eventually

SLOTS = 2


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


def test_of_200_parallel_submits_exactly_the_room_is_accepted(stack: Stack, api: Api, diary: Diary) -> None:
    before = {row.id for row in records.jobs(stack.database_url)}

    def counts() -> tuple[float, float]:
        full = counted(stack, "jobs_rejected_total", cost_class="heavy", reason="queue_full")
        return counted(stack, "jobs_admitted_total", cost_class="heavy"), full

    admitted_before, full_before = counts()
    burst = submit_at_once(stack, diary, [diary.params(f"n{i}", cost_class="heavy", held=True) for i in range(200)])
    accepted, refused = ids_of(burst), refusals_of(burst)
    assert len(accepted) == HEAVY_WAITING + SLOTS
    assert len(accepted) + len(refused) == 200
    assert processes_that_counted(stack.data_dir, "jobs_admitted_total") >= 2, "the race was between web processes"
    assert processes_that_counted(stack.data_dir, "jobs_rejected_total") >= 2

    diary.open_gate()
    assert {api.ended(job_id, 30)["state"] for job_id in accepted} == {"succeeded"}
    api.drained("heavy")
    rows = [row for row in records.jobs(stack.database_url) if row.id not in before]
    assert {row.id for row in rows} == set(accepted), "a refused job leaves no row"
    assert {row.admitted_bound for row in rows} == {HEAVY_WAITING + SLOTS}
    assert len(diary.began()) == len(set(diary.began())) == len(accepted), "a refused job never runs"
    assert counts() == (admitted_before + len(accepted), full_before + len(refused))


def test_two_slots_and_three_places_take_five_of_eight_every_time(stack: Stack, api: Api, diary: Diary) -> None:
    for round_number in range(3):
        burst = submit_at_once(stack, diary, [diary.params(f"r{round_number}n{i}", held=True) for i in range(8)])
        accepted, refused = ids_of(burst), refusals_of(burst)
        assert (len(accepted), len(refused)) == (5, 3)
        eventually(lambda: len(diary.began()) - len(diary.ended()) == SLOTS)
        diary.open_gate()
        assert {api.ended(job_id)["state"] for job_id in accepted} == {"succeeded"}
        diary.close_gate()
    assert diary.most_at_once() == SLOTS
    assert len(diary.ended()) == 15


def test_cancelling_a_queued_job_frees_its_place_at_once(api: Api, diary: Diary) -> None:
    running, queued = _fill_light(api, diary)
    assert api.post("tests.note", diary.params("too-many")).status_code == 503

    answer = api.cancel(queued[1])
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    in_its_place = api.submit("tests.note", diary.params("in-its-place"))
    assert api.post("tests.note", diary.params("too-many-again")).status_code == 503, "one place, not two"

    diary.open_gate()
    for job_id in [*running, queued[0], queued[2], in_its_place]:
        assert api.ended(job_id)["state"] == "succeeded"
    assert sorted(diary.began()) == ["in-its-place", "q0", "q2", "r0", "r1"]


def test_a_job_past_its_queue_age_expires_never_runs_and_frees_its_place(api: Api, diary: Diary) -> None:
    running, queued = _fill_light(api, diary, max_wait_seconds=1.5)
    assert api.post("tests.note", diary.params("too-many")).status_code == 503, "its place is taken while it may start"

    for job_id in queued:
        expired = api.in_state(job_id, "expired", within_seconds=4)
        assert expired["error"]["code"] == "max_wait"
        assert expired["attempt"] == 0
    in_their_places = [api.submit("tests.note", diary.params(f"p{i}")) for i in range(LIGHT_WAITING)]
    assert api.post("tests.note", diary.params("too-many-again")).status_code == 503

    diary.open_gate()
    for job_id in [*running, *in_their_places]:
        assert api.ended(job_id)["state"] == "succeeded"
    assert sorted(diary.began()) == ["p0", "p1", "p2", "r0", "r1"]


def _fill_light(api: Api, diary: Diary, **fields: float) -> tuple[list[str], list[str]]:
    """Ids of the jobs that run, held, and of those that wait, submitted with `fields`."""
    running = [api.submit("tests.note", diary.params(f"r{i}", held=True)) for i in range(SLOTS)]
    diary.wait_until_began("r0", "r1")
    return running, [api.submit("tests.note", diary.params(f"q{i}"), **fields) for i in range(LIGHT_WAITING)]
