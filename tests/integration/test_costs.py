"""What a job is expected to cost, and what follows from it: room by work, the latest useful start, the deadline at the door (P5, P8, P9)."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from pydantic import BaseModel
from structlog.testing import capture_logs

from jobs import admission, capacity, classes, costs, lifecycle
from jobs.admission import Admitted, Rejected
from jobs.costs import CostTooLarge, WrongCost
from jobs.expected_cost import FEWEST_RUNS
from jobs.models import Job, RunTimes, WorkerNode
from jobs.registry import JobType, NoParams
from jobs.states import State
from tests import job_rows
from tests.submissions import a_class, a_submission, verdict
from workers.keeper import Keeper

pytestmark = pytest.mark.django_db


class Stops(BaseModel):
    stops: int = 1


def a_type(cost: Any = None) -> JobType:
    return JobType(job_rows.TYPE, lambda ctx: None, NoParams, "light", cost=cost)


def ran(*seconds: float, state: State = State.SUCCEEDED, ago: float = 10, **fields: Any) -> None:
    """Jobs that ended some seconds ago, one after another."""
    for number, run_seconds in enumerate(seconds):
        ended = job_rows.later(-ago + number / 1000)
        job_rows.a_finished_job(state, finished_at=ended, run_seconds=run_seconds, **fields)


def measured(seconds: float, runs: int = FEWEST_RUNS) -> None:
    """The class is known to take so long."""
    RunTimes.objects.create(
        cost_class="light",
        type=job_rows.TYPE,
        newest=[seconds] * runs,
        expected_seconds=seconds,
        seen_until=job_rows.later(0),
    )


def known_of(job_type: str = job_rows.TYPE, cost_class: str = "light") -> tuple[float | None, float]:
    """What an admission would expect of a job, and what it would count in the order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT expected, counts FROM cost_v1(%s, %s, NULL)", [cost_class, job_type])
        expected, counts = cursor.fetchone()
    return expected, counts


# ── What a job is expected to cost ───────────────────────────────────────────────────────────────────────────────────


def test_a_type_may_say_what_its_jobs_cost() -> None:
    by_stops = replace(a_type(lambda params: params.stops * 0.5), params=Stops)
    assert costs.declared(a_type(3), NoParams(), 10) == 3.0
    assert costs.declared(by_stops, Stops(stops=4), 10) == 2.0
    assert costs.declared(a_type(), NoParams(), 10) is None


@pytest.mark.parametrize("said", [0, -1, float("nan"), float("inf"), "3", True, [1]])
def test_what_is_no_cost_is_its_author_s_fault(said: object) -> None:
    with pytest.raises(WrongCost, match="a cost is a number of seconds above 0"):
        costs.declared(a_type(lambda params: said), NoParams(), 10)


def test_a_job_whose_work_does_not_fit_its_time_out_is_none() -> None:
    with pytest.raises(CostTooLarge, match="Its work is 10.5 s .* may run for 10 s only"):
        costs.declared(a_type(10.5), NoParams(), 10)


def test_nothing_is_known_of_a_type_that_never_ran() -> None:
    assert known_of() == (None, 1.0)


@pytest.mark.parametrize(("runs", "known"), [(19, None), (20, 2.0)])
def test_twenty_runs_make_a_measure(runs: int, known: float | None) -> None:
    ran(*[2.0] * runs)
    assert costs.learn() == runs
    assert known_of()[0] == known


def test_what_is_learnt_is_learnt_once() -> None:
    ran(*[2.0] * 25)
    assert costs.learn() == 25
    assert costs.learn() == 0
    ran(*[3.0] * 5, ago=2)
    assert costs.learn() == 5
    assert RunTimes.objects.get().runs == 30


def test_an_end_that_may_not_be_visible_to_all_yet_waits_for_the_next_time() -> None:
    ran(2.0, ago=-60)
    assert costs.learn() == 0


def test_the_newest_runs_count() -> None:
    ran(*[9.0] * 100)
    costs.learn()
    ran(*[1.0] * 100, ago=2)
    costs.learn()
    assert known_of()[0] == 1.0


def test_an_odd_run_changes_little() -> None:
    ran(*[1.0] * 39, 10_000.0)
    costs.learn()
    assert known_of()[0] == 1.0


def test_a_failed_run_took_its_time_too_and_a_cancelled_one_tells_nothing() -> None:
    ran(*[4.0] * 20, state=State.FAILED)
    ran(*[0.1] * 50, state=State.CANCELLED)
    costs.learn()
    assert known_of()[0] == 4.0


def test_a_keeper_warns_of_what_may_expire_while_it_is_not_known_how_long_its_types_take() -> None:
    """P5. Of a full room of light jobs that all take their whole time-out most would never start."""
    light = classes.get("light")
    assert light.longest_queue_seconds == light.max_waiting * 10 / light.processes > light.max_wait_seconds
    keeper: Any = SimpleNamespace(node=SimpleNamespace(cost_class="light"))

    def warned() -> list[Any]:
        with capture_logs() as logs:
            Keeper._warn_of_what_may_expire(keeper)
        return [one["cost_unknown"] for one in logs if one["event"] == "jobs_may_expire"]

    unknown = costs.unknown_in(light)
    assert unknown and warned() == [unknown]
    for name in unknown:
        RunTimes.objects.create(
            cost_class="light", type=name, seen_until=job_rows.later(0), newest=[], expected_seconds=0.1
        )
    assert (costs.unknown_in(light), warned()) == ([], [])


def test_a_type_of_which_nothing_is_known_counts_as_its_class_s_mean() -> None:
    ran(*[4.0] * 30)
    ran(*[1.0] * 30, type="tests.other")
    costs.learn()
    assert known_of("tests.unknown") == (None, 2.5)
    assert known_of("tests.unknown", "heavy") == (None, 1.0)


def test_an_admission_looks_for_itself_and_stores_what_it_found(node: WorkerNode) -> None:
    measured(3.0)
    answer = admission.submit(a_submission())
    assert isinstance(answer, Admitted)
    row = job_rows.read(answer.job.pk)
    assert (
        (row.expected_seconds, row.cost_seconds) == (3.0, 3.0) == (answer.job.expected_seconds, answer.job.cost_seconds)
    )


# ── Room by work ─────────────────────────────────────────────────────────────────────────────────────────────────────


def submit(seconds: float | None = None, **fields: Any) -> Admitted | Rejected:
    """A job whose type says that it is so many seconds of work."""
    cost_class = fields.pop("cost_class", a_class(max_waiting=100, max_backlog_seconds=10.0))
    answer = admission.submit(replace(a_submission(declared_cost_seconds=seconds), cost_class=cost_class, **fields))
    assert isinstance(answer, Admitted | Rejected)
    return answer


def test_a_class_takes_work_until_it_has_enough_of_it(node: WorkerNode) -> None:
    """Two slots, ten seconds: of jobs of eight seconds the third finds sixteen ahead, which are eight for each slot, and the fourth too many."""
    answers = [submit(8) for _ in range(4)]
    assert [verdict(answer) for answer in answers] == ["admitted"] * 3 + ["queue_full"]
    assert isinstance(answers[3], Rejected) and answers[3].room is not None
    assert (answers[3].room.work_seconds, answers[3].room.waiting) == (24, 3)


def test_work_of_which_nothing_is_known_is_bounded_by_its_count_only(node: WorkerNode) -> None:
    assert [verdict(submit()) for _ in range(50)] == ["admitted"] * 50


def test_what_a_running_job_has_done_already_is_no_longer_ahead(node: WorkerNode) -> None:
    for _ in range(2):
        submit(12)
        assert job_rows.claim(node) is not None
    assert verdict(submit(1)) == "queue_full"
    Job.objects.update(started_at=job_rows.later(-8))
    assert verdict(submit(1)) == "admitted"


def test_without_a_live_node_the_configured_processes_stand_for_its_slots(db: None) -> None:
    one_process = a_class(max_waiting=100, processes=1, max_backlog_seconds=10.0)
    assert [verdict(submit(8, cost_class=one_process)) for _ in range(3)] == ["admitted", "admitted", "queue_full"]


def test_the_bound_is_four_fifths_of_the_longest_wait_unless_it_is_set() -> None:
    assert a_class(max_wait_seconds=60.0).backlog_seconds == 48
    assert a_class(max_wait_seconds=60.0, max_backlog_seconds=7.0).backlog_seconds == 7


# ── Deadlines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_must_start_early_enough_to_end_in_time(node: WorkerNode) -> None:
    answer = submit(4, deadline_in_seconds=20.0)
    assert isinstance(answer, Admitted) and answer.job.deadline_at and answer.job.start_by
    assert answer.job.deadline_at - answer.job.start_by == timedelta(seconds=4)
    assert job_rows.read(answer.job.pk).start_by == answer.job.start_by


def test_what_can_no_longer_end_in_time_is_not_started_and_its_cause_is_the_deadline(node: WorkerNode) -> None:
    answer = submit(4, deadline_in_seconds=20.0)
    assert isinstance(answer, Admitted) and answer.job.start_by
    late = answer.job.start_by - timedelta(seconds=21)
    Job.objects.update(start_by=late, deadline_at=late + timedelta(seconds=4), accepted_at=job_rows.later(-30))
    assert job_rows.claim(node) is None
    assert lifecycle.expire() == 1
    job = job_rows.read(answer.job.pk)
    assert (job.state, job.error_code) == ("expired", "deadline")
    assert job.error_message == "It was not started in time for its deadline; it never ran."


def test_after_a_run_the_latest_useful_start_is_kept_for_the_next(node: WorkerNode) -> None:
    answer = submit(4, deadline_in_seconds=20.0, max_wait_seconds=0.5)
    claimed = job_rows.claim(node)
    assert isinstance(answer, Admitted) and claimed is not None
    lifecycle.release(claimed.job_id, claimed.attempt)
    job = job_rows.read(claimed.job_id)
    assert job.deadline_at and job.start_by and job.deadline_at - job.start_by == timedelta(seconds=4)


@pytest.mark.parametrize(("declared", "said"), [(True, "deadline_infeasible"), (False, "admitted")])
def test_only_what_its_type_declares_can_never_be_in_time(node: WorkerNode, declared: bool, said: str) -> None:
    """Of a measure it is not said: the job may be a quick one. An idle class starts it at once."""
    measured(5)
    assert verdict(submit(5 if declared else None, deadline_in_seconds=4.0)) == said


@pytest.mark.parametrize(
    ("departures", "slots", "mean", "within", "probability"),
    [
        (4, 2, 30, 60, 0.566530),
        (4, 2, 30, 120, 0.957620),
        (1, 2, 30, 30, 0.864665),
        (20, 2, 0.2, 2, 0.529743),
        (20, 2, 0.2, 3, 0.978127),
    ],
)
def test_the_door_refuses_what_would_probably_be_late(
    db: None, departures: int, slots: int, mean: float, within: float, probability: float
) -> None:
    """The formula of jobs/capacity.py, through the live path."""
    node = job_rows.a_node(processes=slots)
    measured(mean)
    wide = a_class(max_waiting=100, max_backlog_seconds=10_000.0)
    for _ in range(departures + slots - 1):
        assert verdict(submit(cost_class=wide)) == "admitted"
    for _ in range(slots):
        assert job_rows.claim(node) is not None
    assert capacity.start_probability(departures, slots, mean, within) == pytest.approx(probability, abs=1e-6)
    answer = submit(cost_class=wide, deadline_in_seconds=within + mean)
    assert verdict(answer) == ("admitted" if probability >= 0.95 else "deadline_unreachable")
    if isinstance(answer, Rejected):
        assert answer.starts_in_seconds == pytest.approx(departures * mean / slots)
        assert not Job.objects.filter(deadline_at__isnull=False).exists()


def test_the_door_says_nothing_of_deadlines_while_too_little_is_known(node: WorkerNode) -> None:
    for _ in range(20):
        submit()
    assert verdict(submit(deadline_in_seconds=0.5)) == "admitted"


def test_a_job_with_a_free_process_starts_at_once_whatever_the_measure_says(node: WorkerNode) -> None:
    measured(30)
    answer = submit(deadline_in_seconds=31.0)
    assert isinstance(answer, Admitted)
    assert job_rows.read(answer.job.pk).estimated_start_at == answer.job.accepted_at


def test_the_promised_start_is_kept_with_the_job(node: WorkerNode) -> None:
    measured(3)
    for _ in range(2):
        submit()
        job_rows.claim(node)
    for waiting in range(4):
        answer = submit()
        assert isinstance(answer, Admitted)
        promised = job_rows.read(answer.job.pk).estimated_start_at
        assert promised and answer.job.accepted_at
        assert (promised - answer.job.accepted_at).total_seconds() == pytest.approx((waiting + 1) * 1.5, abs=1e-3)


def test_the_database_s_probability_is_the_pure_one(db: None) -> None:
    with connection.cursor() as cursor:
        for departures in (0, 1, 2, 7, 40, 300, 2_000):
            for mean in (0.0, 0.1, 1.0, 7.5, 280.0, 2_100.0):
                cursor.execute("SELECT start_probability_v1(%s, %s)", [departures, mean])
                exact = capacity.start_probability(departures, 1, 1.0, mean)
                assert cursor.fetchone()[0] == pytest.approx(exact, abs=1e-9), (departures, mean)
