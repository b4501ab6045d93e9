"""Two or three that meet on one job, many times over: one of them has it, and all agree who (P13, P18, P20)."""

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from django.db.models.functions import Now

from jobs import leases, lifecycle
from jobs.lifecycle import Outcome
from jobs.models import Attempt, Job, Sweep
from jobs.states import State
from tests import job_rows
from tests.concurrency import recorded
from tests.concurrency.crowd import Crowd, rounds_until
from tests.concurrency.rounds import ROUNDS, SPREAD_SECONDS, class_of, hit, jobs_for_rounds, race, rows, there

# What was recorded is judged at the end of each test.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

FAILURE = Outcome(State.FAILED, error_code="handler_error")


def test_cancel_against_claim(history: Path) -> None:
    """Either the body never starts, or the job runs and has its cancel noted; never both, never neither."""
    node, jobs = job_rows.a_node(), jobs_for_rounds()
    races = race(lambda r: recorded.cancel(history, jobs[r].pk), lambda r: recorded.claim(history, node, class_of(r)))
    outcomes: Counter[str] = Counter()
    for (cancelled, claimed), job in zip(races, rows(), strict=True):
        assert cancelled == job.state
        assert job.cancel_requested_at is not None
        assert job.state == ("cancelled" if claimed is None else "running")
        assert Attempt.objects.filter(job=job).count() == (claimed is not None)
        outcomes[job.state] += 1
    hit(outcomes, "cancelled", "running")


def test_cancel_against_settle(history: Path) -> None:
    """A cancel that was answered ends cancelled, one that was not leaves the success alone (P20)."""
    node, jobs = job_rows.a_node(), jobs_for_rounds()
    claims = [job_rows.claim(node, class_of(r)) for r in range(ROUNDS)]
    races = race(lambda r: recorded.cancel(history, jobs[r].pk), lambda r: job_rows.succeed(there(claims[r]), r))
    outcomes: Counter[str] = Counter()
    for (answer, settled), job in zip(races, rows(), strict=True):
        assert answer in {State.RUNNING, None}
        answered = answer is not None
        assert job.state == settled == ("cancelled" if answered else "succeeded")
        assert (job.result is None) is answered
        assert (job.cancel_requested_at is not None) is answered
        outcomes[job.state] += 1
    hit(outcomes, "cancelled", "succeeded")


def test_two_cancels_against_claim_and_settle(history: Path) -> None:
    """Wherever in a job's life the cancels fall, their answers and the end agree."""
    node, jobs = job_rows.a_node(), jobs_for_rounds()
    held_back = [0.0, 0.001, 0.002, 0.005]
    started, cancelled, ended = ([Event() for _ in range(ROUNDS)] for _ in range(3))

    def run(round_: int) -> State | None:
        claimed = recorded.claim(history, node, class_of(round_))
        started[round_].set()
        if round_ % 6 == 4:
            cancelled[round_].wait(30)
        time.sleep(SPREAD_SECONDS)  # its body
        settled = job_rows.succeed(claimed) if claimed else None
        ended[round_].set()
        return settled

    def cancel(round_: int) -> State | None:
        if round_ % 6 == 4:
            started[round_].wait(30)
        elif round_ % 6 == 5:
            ended[round_].wait(30)
        else:
            time.sleep(held_back[round_ // 6 % len(held_back)])
        answer = recorded.cancel(history, jobs[round_].pk)
        cancelled[round_].set()
        return answer

    races = race(cancel, run, cancel)
    outcomes: Counter[str] = Counter()
    for (first, settled, second), job in zip(races, rows(), strict=True):
        answered = first or second
        assert job.state == ("cancelled" if answered else "succeeded")
        assert settled == (job.state if job.attempt else None)
        assert job.finished_at is not None
        outcomes["never ran" if not job.attempt else "cancelled as it ran" if answered else "too late"] += 1
    hit(outcomes, "never ran", "cancelled as it ran", "too late")


def test_expire_against_claim(history: Path) -> None:
    """A job whose time runs out in the moment of its claim is started or expired, not both."""
    node = job_rows.a_node()
    jobs = jobs_for_rounds(start_by=Now() + timedelta(hours=1))

    def let_expire(round_: int) -> int:
        Job.objects.filter(pk=jobs[round_].pk, state="queued").update(start_by=Now())
        return lifecycle.expire(jobs[round_].pk)

    races = race(let_expire, lambda r: recorded.claim(history, node, class_of(r)))
    outcomes: Counter[str] = Counter()
    for (expired, claimed), job in zip(races, rows(), strict=True):
        assert (expired, claimed is None) in {(1, True), (0, False), (0, True)}
        if job.state == "queued":  # each left it to the other; the next sweep ends it
            assert lifecycle.expire(job.pk) == 1
            continue
        assert job.state == ("expired" if expired else "running")
        assert job.attempt == (0 if expired else 1)
        outcomes[job.state] += 1
    hit(outcomes, "expired", "running")


def test_two_claims_for_one_job(history: Path) -> None:
    node, jobs = job_rows.a_node(), jobs_for_rounds()
    races = race(*[lambda r: recorded.claim(history, node, class_of(r))] * 2)
    winners: Counter[str] = Counter()
    for claims, job, row in zip(races, jobs, rows(), strict=True):
        (won,) = [claimed for claimed in claims if claimed is not None]
        assert (won.job_id, won.attempt, row.attempt) == (job.pk, 1, 1)
        winners["first" if claims[0] else "second"] += 1
    assert Attempt.objects.count() == ROUNDS
    hit(winners, "first", "second")


def test_two_settles_of_one_attempt() -> None:
    """As a keeper that thinks its child is lost, and the child."""
    node, jobs = job_rows.a_node(), jobs_for_rounds()
    claims = [there(job_rows.claim(node, class_of(r))) for r in range(ROUNDS)]
    races = race(
        lambda r: job_rows.succeed(claims[r], r), lambda r: lifecycle.settle(jobs[r].pk, claims[r].attempt, FAILURE)
    )
    outcomes: Counter[str] = Counter()
    for (succeeded, failed), job in zip(races, rows(), strict=True):
        assert (succeeded is None) != (failed is None)
        assert job.state == (succeeded or failed)
        assert Attempt.objects.get(job=job).outcome == job.state
        assert job.error_code == ("handler_error" if failed else "")
        outcomes[job.state] += 1
    hit(outcomes, "succeeded", "failed")


def test_a_renewal_against_the_reaper(history: Path) -> None:
    """A lease is renewed or reaped; a renewal that says it held is never overtaken."""
    node, jobs = job_rows.a_node(), jobs_for_rounds(max_deliveries=1)
    claims = [there(job_rows.claim(node, class_of(r))) for r in range(ROUNDS)]
    over = {r: Job.objects.filter(pk=jobs[r].pk) for r in range(ROUNDS)}
    Job.objects.update(lease_until=Now() + timedelta(hours=1))

    lapsed, renewed_at_last = ([Event() for _ in range(ROUNDS)] for _ in range(2))

    def lapse_and_reap(round_: int) -> int:
        recorded.given_up(history, [jobs[round_].pk])
        over[round_].update(lease_until=Now() - timedelta(seconds=1))
        lapsed[round_].set()
        if round_ % 6 == 5:
            renewed_at_last[round_].wait(30)
        return lifecycle.reap()

    def renew(round_: int) -> int:
        if round_ % 6 == 5:
            lapsed[round_].wait(30)
        held = leases.renew(node.pk, [job_rows.a_lease(jobs[round_].pk, claims[round_].attempt)], 3600)
        renewed_at_last[round_].set()
        return held

    races = race(lapse_and_reap, renew)
    outcomes: Counter[str] = Counter()
    for (reaped, renewed), job in zip(races, rows(), strict=True):
        # Renewed before it lapsed and reaped after is a third way: both said the truth of their instant.
        assert job.state == ("failed" if reaped else "running")
        assert reaped or renewed
        outcomes["reaped" if reaped else "renewed"] += 1
    hit(outcomes, "reaped", "renewed")


# ── Processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_four_processes_share_a_queue_and_start_every_job_once(crowd: Crowd) -> None:
    node = job_rows.a_node()
    jobs = [job_rows.a_queued_job() for _ in range(200)]
    order = {str(job.pk): number for number, job in enumerate(jobs)}
    shares = crowd.all_do("claim_all", node=str(node.pk), cost_class="light", together=20)
    print(f"claimed by process: {[len(share) for share in shares]}")
    assert sorted(job_id for share in shares for job_id, _, _ in share) == sorted(order)
    assert {attempt for share in shares for _, attempt, _ in share} == {1}
    assert min(len(share) for share in shares) >= 20
    for share in shares:  # no process overtakes itself
        assert [order[job_id] for job_id, _, _ in share] == sorted(order[job_id] for job_id, _, _ in share)


def test_four_processes_that_expire_the_same_jobs_end_each_once(crowd: Crowd) -> None:
    """All come to each job at once; whoever is second finds it ended, or held, and leaves it."""
    jobs = [str(job_rows.a_queued_job(start_by=Now() - timedelta(seconds=1)).pk) for _ in range(150)]
    ended = crowd.all_do("expire_each", jobs=jobs)
    print(f"expired by process: {[sum(mine) for mine in ended]}")
    assert [sum(counts) for counts in zip(*ended, strict=True)] == [1] * len(jobs)
    assert not Job.objects.exclude(state="expired").exists()


def test_four_processes_that_reap_at_once_end_each_job_once(crowd: Crowd, history: Path) -> None:
    node = job_rows.a_node()
    for _ in range(5):
        for _ in range(20):
            job_rows.a_running_job(node, max_deliveries=1)
        Job.objects.filter(state="running").update(lease_until=Now() - timedelta(seconds=1))
        assert sum(_reap_all(crowd, history)) == 20
    assert Job.objects.filter(state="failed", lost=1).count() == 100
    assert Attempt.objects.filter(outcome="lost").count() == 100


def test_four_processes_that_reap_at_once_queue_each_job_again_once(crowd: Crowd, history: Path) -> None:
    """Nobody counts one loss twice."""
    node = job_rows.a_node()
    for _ in range(100):
        job_rows.a_running_job(node)
    Job.objects.update(lease_until=Now() - timedelta(seconds=1))
    reaped = _reap_all(crowd, history)
    print(f"requeued by process: {reaped}")
    assert sum(reaped) == 100
    assert Job.objects.filter(state="queued", lost=1, attempt=1).count() == 100
    assert Attempt.objects.filter(outcome="lost").count() == 100


def test_a_due_sweep_is_run_by_one_of_four_processes(crowd: Crowd) -> None:
    names = [f"sweep {letter}" for letter in "abcdefgh"]
    runners: Counter[int] = Counter()
    for _ in rounds_until(lambda: sum(count >= 3 for count in runners.values()) >= 2, at_least=10):
        ran = crowd.all_do("run_due_sweeps", names=names)
        assert sorted(name for mine in ran for name in mine) == names
        assert crowd.all_do("run_due_sweeps", names=names) == [[]] * crowd.size
        runners.update({number: len(mine) for number, mine in enumerate(ran)})
        Sweep.objects.update(last_run_at=Now() - timedelta(hours=1))
    print(f"turns by process: {dict(runners)}")
    assert sum(count >= 3 for count in runners.values()) >= 2


def _reap_all(crowd: Crowd, history: Path) -> list[int]:
    recorded.given_up(history, Job.objects.filter(state="running").values_list("pk", flat=True))
    return crowd.all_do("reap")
