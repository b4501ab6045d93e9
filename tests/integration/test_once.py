"""ctx.once: an effect happens once per job, whoever else tries, whichever attempt it is, wherever a crash falls (P28)."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError
from django.test import override_settings

from jobs import lifecycle, nodes, sweeps
from jobs.lifecycle import Claim, Claimant, Outcome
from jobs.models import ApiClient, Job, OnceResult
from jobs.states import State
from tests.waiting import eventually
from workers import LeaseLost, progress
from workers.once import Database, once

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)

ROUNDS = 50


class Effect:
    """Something that must not happen twice."""

    def __init__(self, result: object = None) -> None:
        self.times = 0
        self.result = result

    def __call__(self) -> object:
        self.times += 1
        return self.result


@pytest.fixture
def job(db: None) -> Claim:
    node = nodes.Node(uuid4(), "here", 4711, "light", 1, ("tests.once",))
    nodes.beat(node)
    client = ApiClient.objects.create(name="a")
    Job.objects.create(client=client, type="tests.once", cost_class="light", admitted_bound=1, timeout_seconds=9)
    return _claim(node.id)


def _claim(node_id: UUID) -> Claim:
    claim = lifecycle.claim(Claimant(node_id, 4711, 99), "light", ["tests.once"], 30, 5)
    assert claim is not None
    return claim


def _again(job: Claim) -> Claim:
    """The next attempt of the job, after this one failed."""
    node_id = Job.objects.values_list("node_id", flat=True).get(pk=job.job_id)
    assert node_id is not None
    assert lifecycle.retry(job.job_id, job.attempt, Outcome(State.FAILED, error_code="x"), 0.0) is State.QUEUED
    return _claim(node_id)


def _once_of(claim: Claim) -> Callable[..., object]:
    def call(key: str, fn: Callable[[], object] | None = None) -> object:
        return once(Database(claim.job_id, claim.attempt), key, fn)

    return call


@pytest.mark.parametrize("result", [None, {"receipt": ["r-1", 2.5, True, "é"]}, 0, ""])
def test_a_later_call_and_a_later_attempt_get_what_the_first_call_returned(job: Claim, result: object) -> None:
    effect = Effect(result)
    assert [_once_of(job)("charge", effect) for _ in range(2)] == [result, result]
    assert _once_of(_again(job))("charge", effect) == result
    assert effect.times == 1


def test_a_crash_between_effect_and_store_repeats_the_effect(job: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    effect = Effect("r-1")
    with monkeypatch.context() as crash, pytest.raises(AttributeError):
        crash.setattr(Database, "keep", _die)
        _once_of(job)("charge", effect)
    assert _once_of(_again(job))("charge", effect) == "r-1"
    assert effect.times == 2


def _die(*arguments: object) -> None:
    raise AttributeError


def test_an_effect_that_fails_leaves_the_key_free(job: Claim) -> None:
    with pytest.raises(AttributeError):
        _once_of(job)("charge", _die)
    assert _once_of(job)("charge", Effect("r-2")) == "r-2"


def test_a_key_alone_is_true_exactly_once_over_all_attempts(job: Claim) -> None:
    assert [_once_of(job)("mail") for _ in range(3)] == [True, False, False]
    assert _once_of(_again(job))("mail") is False


def test_a_key_that_was_taken_alone_has_no_result_to_return(job: Claim) -> None:
    effect = Effect()
    _once_of(job)("mail")
    with pytest.raises(ValueError, match=r"once\('mail'\) was taken alone"):
        _once_of(job)("mail", effect)
    assert effect.times == 0
    _once_of(job)("charge", effect)
    assert _once_of(job)("charge") is False


@two_connections
def test_of_two_connections_that_take_a_key_at_once_exactly_one_is_told_true(job: Claim) -> None:
    firsts = [0, 0]
    for number in range(ROUNDS):
        told = _at_once(partial(_once_of(job), f"mail:{number}"), partial(_once_of(job), f"mail:{number}"))
        assert sorted(told) == [False, True]  # type: ignore[type-var]
        firsts[told.index(True)] += 1
    print(f"first: {firsts}")
    assert sum(firsts) == ROUNDS


@two_connections
def test_of_two_connections_that_store_at_once_both_return_what_was_stored_first(job: Claim) -> None:
    """The second is inside its effect, past its look, when the first stores: the interleaving is forced."""
    looked, stored = threading.Event(), threading.Event()

    def late_effect() -> str:
        looked.set()
        assert stored.wait(10)
        return "late"

    def first() -> object:
        assert looked.wait(10)
        try:
            return _once_of(job)("charge", lambda: "first")
        finally:
            stored.set()

    assert _at_once(first, partial(_once_of(job), "charge", late_effect)) == ["first", "first"]
    assert OnceResult.objects.count() == 1


def _at_once(*calls: Callable[[], object]) -> list[object]:
    """Each call in a thread with a connection of its own, released together."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        with connection.cursor():
            gate.wait(10)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(30) for future in [pool.submit(run, call) for call in calls]]


def test_an_attempt_that_lost_its_job_neither_reads_nor_takes_nor_has_effects(job: Claim) -> None:
    effect = Effect()
    stale = _once_of(job)
    now = _once_of(_again(job))
    for call in (lambda: stale("mail"), lambda: stale("charge", effect)):
        with pytest.raises(LeaseLost):
            call()
    assert effect.times == OnceResult.objects.count() == 0
    assert now("mail") is True


def test_an_attempt_that_loses_its_job_during_the_effect_stores_nothing(job: Claim) -> None:
    def overtaken() -> str:
        _again(job)
        return "stale"

    with pytest.raises(LeaseLost):
        _once_of(job)("charge", overtaken)
    assert OnceResult.objects.count() == 0


@two_connections
def test_a_connection_that_died_before_or_during_the_effect_loses_no_result(job: Claim) -> None:
    _terminate_our_connection()
    assert _once_of(job)("charge", Effect("r-1")) == "r-1"

    def effect() -> str:
        _terminate_our_connection()
        return "r-2"

    assert _once_of(job)("ship", effect) == "r-2"
    assert _once_of(job)("ship", _die) == "r-2"


@two_connections
def test_a_connection_that_dies_while_it_stores_loses_no_result(job: Claim) -> None:
    """The store waits for another connection's insert of the key, which ends ours and takes its insert back."""
    holds = threading.Event()

    def effect() -> str:
        assert holds.wait(10)
        return "r-1"

    def ends_the_other() -> None:
        with transaction.atomic():
            assert _once_of(job)("charge") is True
            holds.set()
            waiting = eventually(_who_waits_for_us)
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [waiting])
            transaction.set_rollback(True)

    assert _at_once(partial(_once_of(job), "charge", effect), ends_the_other)[0] == "r-1"
    assert _once_of(job)("charge", _die) == "r-1"


def _who_waits_for_us() -> int | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        row = cursor.fetchone()
    return row and int(row[0])


def _terminate_our_connection() -> None:
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@two_connections
def test_in_the_handlers_own_transaction_the_result_goes_where_the_transaction_goes(job: Claim) -> None:
    with pytest.raises(AttributeError), transaction.atomic():
        _once_of(job)("charge", Effect("undone"))
        _die()
    with transaction.atomic():
        assert _once_of(job)("charge", Effect("kept")) == "kept"
    assert _once_of(job)("charge", _die) == "kept"


@two_connections
def test_a_coroutine_may_have_effects_once_and_show_its_progress(job: Claim) -> None:
    async def handler() -> object:
        progress.report(job, 0.5, "half way")
        return _once_of(job)("charge", lambda: "r-1")

    assert asyncio.run(handler()) == "r-1"
    assert Job.objects.get(pk=job.job_id).progress_note == "half way"


def test_what_was_kept_goes_with_its_job(job: Claim) -> None:
    _once_of(job)("charge", Effect("r-1"))
    assert lifecycle.settle(job.job_id, job.attempt, Outcome(State.SUCCEEDED, result=1)) is State.SUCCEEDED
    sweeps.prune()
    assert OnceResult.objects.count() == 1
    with override_settings(WEIGHBRIDGE_KEEP_JOBS_SECONDS=0):
        sweeps.prune()
    assert not Job.objects.exists()
    assert not OnceResult.objects.exists()
