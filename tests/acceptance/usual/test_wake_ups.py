"""A wake-up goes to a process that is free, and may come as often as it likes."""

from itertools import pairwise

import redis
from celery import Celery

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.recorder import now
from tests.waiting import eventually

PROCESSES = 2
IDLE_ALLOWANCE_SECONDS = 1.0  # a claim takes milliseconds; a job behind the long one would wait without end
SURPLUS = 300


def test_no_short_job_waits_behind_a_long_one_while_a_process_is_idle(stack: Stack, api: Api, diary: Diary) -> None:
    long = api.submit("tests.note", diary.params("long", held=True))
    diary.wait_until_began("long")
    short = [api.submit("tests.note", diary.params(f"s{i}", seconds=0.05)) for i in range(20)]
    submitted_at = now()
    # The long one holds its process until all of them have ended.
    assert {api.ended(job_id)["state"] for job_id in short} == {"succeeded"}
    diary.open_gate()
    assert api.ended(long)["state"] == "succeeded"

    assert diary.longest_idle(PROCESSES, since=submitted_at) < IDLE_ALLOWANCE_SECONDS
    rows = [row for row in records.jobs(stack.database_url) if row.id in short]
    ran = sorted((row.started_at, row.finished_at) for row in rows if row.started_at and row.finished_at)
    pauses = [(begin - end).total_seconds() for (_, end), (begin, _) in pairwise(ran)]
    assert max(pauses) < IDLE_ALLOWANCE_SECONDS, "by the database's clock too"


def test_surplus_wake_ups_run_nothing_twice(stack: Stack, api: Api, diary: Diary) -> None:
    _push_wake_ups(stack, SURPLUS)
    jobs = [api.submit("tests.note", diary.params(f"d{i}", seconds=0.02)) for i in range(10)]
    _push_wake_ups(stack, SURPLUS)
    assert {(job["state"], job["attempt"]) for job in map(api.ended, jobs)} == {("succeeded", 1)}
    with redis.Redis.from_url(stack.redis_url) as broker:
        eventually(lambda: broker.llen("light") == 0, 30)  # each of them was taken by a process, for nothing
    assert sorted(diary.began()) == sorted(f"d{i}" for i in range(10))


def _push_wake_ups(stack: Stack, count: int) -> None:
    with Celery(broker=stack.redis_url) as celery, celery.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            celery.send_task("weighbridge.wake_up", args=["light"], queue="light", producer=producer)
