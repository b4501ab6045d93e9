"""Attempts that are given back, released or lost, while somebody else ends or cancels them (P18, P20, P26)."""

import time
from collections import Counter
from pathlib import Path

import pytest

from jobs import lifecycle
from jobs.lifecycle import Outcome
from jobs.models import Attempt
from jobs.states import State
from tests import job_rows
from tests.concurrency import recorded
from tests.concurrency.rounds import ROUNDS, SPREAD_SECONDS, claims_for_rounds, hit, jobs_for_rounds, race, rows

# What was recorded is judged at the end of each test.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

FAILURE = Outcome(State.FAILED, error_code="handler_error")


def test_cancel_against_retry(history: Path) -> None:
    """Whichever comes first the job ends cancelled, and the answer to the cancel says as what it met it (P20)."""
    jobs, claims = jobs_for_rounds(), claims_for_rounds(job_rows.a_node())
    races = race(
        lambda r: recorded.cancel(history, jobs[r].pk),
        lambda r: lifecycle.retry(jobs[r].pk, claims[r].attempt, FAILURE, 60),
    )
    outcomes: Counter[str] = Counter()
    for (answer, given_back), job in zip(races, rows(), strict=True):
        in_backoff = given_back is State.QUEUED
        assert answer is (State.CANCELLED if in_backoff else State.RUNNING)
        assert given_back in {State.QUEUED, State.CANCELLED}
        assert (job.state, job.failures, job.error_code) == ("cancelled", int(in_backoff), "")
        assert Attempt.objects.get(job=job).outcome == ("retried" if in_backoff else "cancelled")
        outcomes["in its backoff" if in_backoff else "as it ran"] += 1
    hit(outcomes, "in its backoff", "as it ran")


@pytest.mark.parametrize("max_deliveries", [1, 3])
def test_cancel_against_lose(max_deliveries: int, history: Path) -> None:
    """A cancel that was answered is the end; one that comes after the last delivery was lost, is told so."""
    jobs = jobs_for_rounds(max_deliveries=max_deliveries)
    claims = claims_for_rounds(job_rows.a_node())

    def cancel(round_: int) -> State | None:
        _hold_back(round_, turn=0)
        return recorded.cancel(history, jobs[round_].pk)

    def lose(round_: int) -> State | None:
        _hold_back(round_, turn=1)
        return recorded.lose(history, claims[round_])

    races = race(cancel, lose)
    lost_first = (State.CANCELLED, State.QUEUED) if max_deliveries > 1 else (None, State.FAILED)
    outcomes: Counter[str] = Counter()
    for pair, job in zip(races, rows(), strict=True):
        assert pair in {lost_first, (State.RUNNING, State.CANCELLED)}
        assert job.state == ("failed" if pair[0] is None else "cancelled")
        assert job.error_code == ("worker_lost" if pair[0] is None else "")
        assert (job.lost, Attempt.objects.get(job=job).outcome) == (1, "lost")
        outcomes["lost first" if pair == lost_first else "cancelled first"] += 1
    hit(outcomes, "lost first", "cancelled first")


def _hold_back(round_: int, turn: int) -> None:
    """Each in its turn, from not at all to longer than the other's statements take, however many those are."""
    if round_ % 2 == turn:
        time.sleep(SPREAD_SECONDS * (round_ // 2 % 6))


@pytest.mark.parametrize(("max_deliveries", "state"), [(1, State.FAILED), (3, State.QUEUED)])
def test_two_that_lose_one_attempt(max_deliveries: int, state: State, history: Path) -> None:
    """A keeper and the reaper: the loss counts once, and the second does not end what the first has queued again."""
    jobs_for_rounds(max_deliveries=max_deliveries)
    claims = claims_for_rounds(job_rows.a_node())
    races = race(*[lambda r: recorded.lose(history, claims[r])] * 2)
    winners: Counter[str] = Counter()
    for pair, job in zip(races, rows(), strict=True):
        assert sorted(pair, key=str) == sorted([state, None], key=str)
        assert (job.state, job.lost, job.failures, job.attempt) == (state, 1, 0, 1)
        winners["first" if pair[0] else "second"] += 1
    assert Attempt.objects.filter(outcome="lost").count() == ROUNDS
    hit(winners, "first", "second")


def test_release_against_settle(history: Path) -> None:
    """At the end of the grace: what was stored is not run again, and what was given back stores nothing."""
    jobs_for_rounds()
    claims = claims_for_rounds(job_rows.a_node())
    races = race(lambda r: recorded.release(history, claims[r]), lambda r: job_rows.succeed(claims[r], r))
    outcomes: Counter[str] = Counter()
    for round_, ((released, settled), job) in enumerate(zip(races, rows(), strict=True)):
        assert (released is None) != (settled is None)
        assert job.state == (released or settled)
        assert job.result == (None if released else round_)
        assert Attempt.objects.get(job=job).outcome == ("released" if released else "succeeded")
        outcomes[job.state] += 1
    hit(outcomes, "queued", "succeeded")


def test_retry_against_lose(history: Path) -> None:
    """A child that fails as its keeper gives it up: one of the two counts, as a failure or as a loss."""
    jobs, claims = jobs_for_rounds(), claims_for_rounds(job_rows.a_node())
    races = race(
        lambda r: lifecycle.retry(jobs[r].pk, claims[r].attempt, FAILURE, 60),
        lambda r: recorded.lose(history, claims[r]),
    )
    outcomes: Counter[str] = Counter()
    for (failed, lost), job in zip(races, rows(), strict=True):
        assert {failed, lost} == {State.QUEUED, None}
        assert (job.state, job.failures, job.lost) == ("queued", int(failed is not None), int(lost is not None))
        outcomes["failed" if failed else "lost"] += 1
    hit(outcomes, "failed", "lost")
