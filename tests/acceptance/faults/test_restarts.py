"""Every program restarted while jobs come in: none is lost, no id is forgotten."""

import time

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.acceptance.faults.times import CONSUME_AGAIN_SECONDS, LEASE_SECONDS
from tests.acceptance.faults.traffic import Traffic
from tests.api_client import Api
from tests.history.nemesis import Away, afflicted
from tests.history.server_nemesis import POSTGRES, CutConnections, Stop
from tests.waiting import eventually

IN_TURN = ("web", "worker-heavy", "worker-light", "worker-control", "beat", "valkey", "postgres")


def test_restarting_each_program_in_turn_loses_no_job_and_forgets_no_id(stack: Stack, api: Api, diary: Diary) -> None:
    with Traffic(stack, diary) as traffic:
        for program in IN_TURN:
            accepted_before = len(traffic.accepted)
            with afflicted(diary.history, stack, Away(program)):
                pass  # it is started again at once
            eventually(lambda since=accepted_before: len(traffic.accepted) > since + 3)  # type: ignore[misc]
    assert set(traffic.answers) <= {202, 503, "unknown"}, traffic.answers

    for job_id, name in traffic.accepted.items():
        job = api.ended(job_id, CONSUME_AGAIN_SECONDS)
        # Short jobs finish inside the grace of a worker that is stopped.
        assert (job["state"], job["attempt"]) == ("succeeded", 1), (name, job)
    ran = diary.began()
    assert len(ran) == len(set(ran)), "each ran once"
    assert set(traffic.accepted.values()) <= set(ran)
    assert len(ran) - len(traffic.accepted) <= traffic.answers["unknown"], "only those whose answer was cut off besides"


def test_a_worker_told_to_stop_finishes_what_runs_and_leaves_what_waits(stack: Stack, api: Api, diary: Diary) -> None:
    running = [
        api.submit("tests.note", diary.params(f"r{i}", seconds=1.5, cost_class="heavy", held=True)) for i in range(2)
    ]
    diary.wait_until_began("r0", "r1")
    queued = api.submit("tests.note", diary.params("queued", cost_class="heavy"))
    diary.open_gate()
    with afflicted(diary.history, stack, Away("worker-heavy")):
        assert {api.job(job_id)["state"] for job_id in running} == {"succeeded"}
        assert api.job(queued)["state"] == "queued"
        assert "queued" not in diary.began()
        assert eventually(lambda: api.cost_class("heavy")["slots"] == 0 and api.cost_class("heavy"), 3)["running"] == 0
    assert api.ended(queued, 30)["state"] == "succeeded"


def test_a_database_away_for_longer_than_a_lease_costs_nothing(stack: Stack, api: Api, diary: Diary) -> None:
    """What runs is not started again (P17), what ends meanwhile is stored later, a submit is told to come back."""
    during = api.submit("tests.note", diary.params("during", cost_class="heavy", held=True))
    after = api.submit("tests.note", diary.params("after", seconds=LEASE_SECONDS + 3, cost_class="heavy"))
    queued = api.submit("tests.note", diary.params("queued", cost_class="heavy"))
    diary.wait_until_began("during", "after")
    with afflicted(diary.history, stack, Stop(POSTGRES, back_seconds=10)):
        away_since = time.monotonic()
        diary.open_gate()
        diary.wait_until_ended("during")
        refused = api.post("tests.note", diary.params("refused", cost_class="heavy"))
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        eventually(lambda: time.monotonic() > away_since + LEASE_SECONDS + 1, LEASE_SECONDS + 3)
    for job_id in (during, after, queued):
        job = api.ended(job_id, 30)
        assert (job["state"], job["attempt"]) == ("succeeded", 1), job
    assert sorted(diary.began()) == ["after", "during", "queued"]


def test_terminated_database_connections_cost_nothing(stack: Stack, api: Api, diary: Diary) -> None:
    """Also in the middle of a job: its settle is retried until it is stored."""
    jobs = [api.submit("tests.note", diary.params(f"j{i}", cost_class="heavy", held=True)) for i in range(6)]
    diary.wait_until_began("j0", "j1")
    with afflicted(diary.history, stack, CutConnections()):
        diary.open_gate()
        for job_id in jobs:
            job = api.ended(job_id)
            assert (job["state"], job["attempt"]) == ("succeeded", 1)
    assert sorted(diary.began()) == [f"j{i}" for i in range(6)]
