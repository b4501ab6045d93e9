"""Whoever waits for a job is told of its end: by a notice, or, when there is none, within half a second (P31)."""

import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
import redis
from django.conf import settings

from jobs import broker, lifecycle, notify
from jobs.models import Job
from jobs.notify import CHANNEL, LOOK_SECONDS, Waiters
from tests import job_rows
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def waiters() -> Iterator[Waiters]:
    mine = Waiters(most=10, most_per_client=5)
    yield mine
    mine.stop()


@pytest.fixture
def telling() -> Iterator[None]:
    """This process says so when it ends a job that somebody waits for."""
    notify.tell_of_ends()
    yield
    lifecycle.ended.disconnect(dispatch_uid="notify")


def _awaited() -> Job:
    job = job_rows.a_queued_job()
    assert notify.mark(job.pk, 60)
    return job


def test_a_notice_is_enough(waiters: Waiters, telling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_no_longer_live", lambda jobs: set())  # nobody looks
    job = _awaited()
    waiter = waiters.join(job.pk, job.client_id)
    assert waiter is not None
    eventually(lambda: _subscribers() >= 1)
    lifecycle.cancel(job.pk)
    waiter.ended.result(5)


def _subscribers() -> int:
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        return int(server.pubsub_numsub(CHANNEL)[0][1])


@pytest.mark.parametrize("away", [False, True], ids=["not told", "Redis away"])
def test_without_a_notice_the_end_is_seen_soon(waiters: Waiters, monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    if away:
        broker.breaker.open()
    job = _awaited()
    waiter = waiters.join(job.pk, job.client_id)
    assert waiter is not None
    lifecycle.cancel(job.pk)
    began = time.monotonic()
    waiter.ended.result(5)
    assert time.monotonic() - began <= 2 * LOOK_SECONDS + 1.0


def test_one_question_is_for_all_and_those_that_still_run_wait_on(waiters: Waiters) -> None:
    ended, live, gone = _awaited(), _awaited(), uuid4()
    lifecycle.cancel(ended.pk)
    assert notify._no_longer_live([ended.pk, live.pk, gone]) == {ended.pk, gone}


def test_nobody_is_told_of_a_job_that_nobody_waits_for(telling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(notify, "_publish", told.append)
    lifecycle.cancel(job_rows.a_queued_job().pk)
    late = _awaited()
    Job.objects.filter(pk=late.pk).update(awaited_until=job_rows.later(-1))
    lifecycle.cancel(late.pk)
    assert told == []
    mine = _awaited()
    lifecycle.cancel(mine.pk)
    assert told == [mine.pk]


def test_a_job_that_has_ended_takes_no_mark() -> None:
    assert not notify.mark(job_rows.a_finished_job().pk, 5)
    assert not notify.mark(uuid4(), 5)


def test_the_longest_wait_counts() -> None:
    job = _awaited()
    until = job_rows.read(job.pk).awaited_until
    notify.mark(job.pk, 1)
    assert job_rows.read(job.pk).awaited_until == until


def test_who_leaves_makes_room(waiters: Waiters) -> None:
    jobs = [uuid4() for _ in range(6)]
    came = [waiters.join(job, client_id=1) for job in jobs]
    assert [waiter is not None for waiter in came] == [True] * 5 + [False]
    assert came[0] is not None
    waiters.leave(came[0])
    waiters.leave(came[0])
    assert len(waiters) == 4
    assert waiters.join(jobs[5], client_id=1) is not None


def test_who_is_told_twice_is_told_once(waiters: Waiters) -> None:
    """The listener, and who begins to wait, may find out at once; neither is to fail for it."""
    job = _awaited()
    waiter = waiters.join(job.pk, job.client_id)
    assert waiter is not None
    for _ in range(2):
        waiter.end()
    assert waiter.ended.done()


def test_a_listener_that_failed_listens_on(waiters: Waiters, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def failing(jobs: object) -> set[UUID]:
        told.append(jobs)
        raise RuntimeError("whatever")

    monkeypatch.setattr(notify, "_no_longer_live", failing)
    job = _awaited()
    waiter = waiters.join(job.pk, job.client_id)
    assert waiter is not None
    eventually(lambda: len(told) >= 2)
    monkeypatch.undo()
    lifecycle.cancel(job.pk)
    waiter.ended.result(5)


def test_what_strangers_say_on_the_channel_harms_nobody(waiters: Waiters, telling: None) -> None:
    job = _awaited()
    waiter = waiters.join(job.pk, job.client_id)
    assert waiter is not None
    eventually(lambda: _subscribers() >= 1)
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        for message in (b"", b"\xff\xfe", b"no id", str(uuid4()).encode()):
            server.publish(CHANNEL, message)
    lifecycle.cancel(job.pk)
    waiter.ended.result(5)
