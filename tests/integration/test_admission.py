"""The door: room, verdicts, what is stored and what is not (P1–P4, P7, P8, P27)."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from jobs import capacity, lifecycle, queries, telemetry
from jobs.admission import Admitted, Rejected
from jobs.capacity import Room
from jobs.models import Job, WorkerNode
from tests import job_rows
from tests.submissions import submit, verdict

BEAT = timedelta(seconds=1)


# ── What is stored ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_admissions_run_at_read_committed_and_in_autocommit(db: None) -> None:
    """P1: at a higher level the count would use a snapshot older than the lock."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone()[0] == "read committed"
    assert not settings.DATABASES["default"].get("ATOMIC_REQUESTS")
    assert settings.DATABASES["default"].get("AUTOCOMMIT", True)


def test_the_function_that_admits_is_volatile_and_waits_a_second_at_most(db: None) -> None:
    """P1: a STABLE one would count with the snapshot of its caller."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT provolatile, proconfig FROM pg_proc WHERE proname = 'admit_v1'")
        assert cursor.fetchall() == [("v", ["lock_timeout=1s"])]


def test_an_admitted_job_is_stored_as_it_was_answered(node: WorkerNode) -> None:
    answer = submit(3, params={"a": [1]}, labels={"k": "v"}, timeout_seconds=7.5, max_wait_seconds=12, request_id="r-1")
    assert isinstance(answer, Admitted)
    stored = job_rows.row(answer.job.pk)
    # Its places in the orders are not part of the answer; everything else the caller may look at is.
    places = {"sequence", "rank", "turn", "flow_rank", "own_order"}
    told = {name: value for name, value in vars(answer.job).items() if name in stored and name not in places}
    assert {name: stored[name] for name in told} == told
    assert stored["params"] == {"a": [1]}
    assert stored["admitted_bound"] == 2 + 3
    assert stored["start_by"] - stored["accepted_at"] == timedelta(seconds=12)
    assert stored["available_at"] == stored["accepted_at"]
    assert (stored["state"], stored["attempt"], stored["max_attempts"]) == ("queued", 0, 1)


def test_a_refusal_carries_the_room_it_was_judged_by(node: WorkerNode) -> None:
    job_rows.a_running_job(node)
    while isinstance(submit(3), Admitted):
        pass
    answer = submit(3)
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.room, answer.cost_class.name) == ("queue_full", Room(4, 1, 2), "light")


def test_answers_are_counted_by_class_and_reason(node: WorkerNode) -> None:
    def counts() -> tuple[float, float]:
        admitted = telemetry.ADMITTED.labels("light")._value.get()
        return admitted, telemetry.REJECTED.labels("light", "queue_full")._value.get()

    before = counts()
    answers = [verdict(submit(0)) for _ in range(5)]
    after = counts()
    assert answers == ["admitted"] * 2 + ["queue_full"] * 3
    assert (after[0] - before[0], after[1] - before[1]) == (2, 3)


# ── Room (P2, P4) ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("max_waiting", [0, 1, 5])
def test_a_class_holds_its_slots_and_its_waiting_room_and_no_more(node: WorkerNode, max_waiting: int) -> None:
    answers = [verdict(submit(max_waiting)) for _ in range(max_waiting + 4)]
    assert answers == ["admitted"] * (2 + max_waiting) + ["queue_full"] * 2


def test_without_a_waiting_room_a_job_is_taken_exactly_while_a_process_is_free(node: WorkerNode) -> None:
    _, first = job_rows.a_running_job(node)
    _, second = job_rows.a_running_job(node)
    assert verdict(submit(0)) == "queue_full"
    job_rows.succeed(first)
    assert verdict(submit(0)) == "admitted"
    assert verdict(submit(0)) == "queue_full"
    job_rows.succeed(second)
    assert verdict(submit(0)) == "admitted"


def test_without_a_worker_only_the_waiting_room_counts(db: None) -> None:
    assert [verdict(submit(2)) for _ in range(3)] == ["admitted", "admitted", "queue_full"]
    assert verdict(submit(0, "heavy")) == "queue_full"


def test_a_job_past_its_start_by_holds_no_place_and_one_before_it_does(db: None) -> None:
    job_rows.a_queued_job(start_by=job_rows.later(-0.001))
    assert queries.room("light").waiting == 0
    job_rows.a_queued_job(start_by=Now() + timedelta(minutes=5))
    job_rows.a_queued_job(start_by=None)
    assert queries.room("light").waiting == 2
    assert [verdict(submit(3)) for _ in range(2)] == ["admitted", "queue_full"]


def test_a_cancelled_job_frees_its_place_at_once(db: None) -> None:
    answer = submit(1)
    assert isinstance(answer, Admitted)
    assert verdict(submit(1)) == "queue_full"
    lifecycle.cancel(answer.job.pk)
    assert verdict(submit(1)) == "admitted"


def test_a_job_in_backoff_keeps_its_place(db: None) -> None:
    job_rows.a_queued_job(available_at=Now() + timedelta(hours=1))
    assert verdict(submit(1)) == "queue_full"


def test_a_running_job_that_is_to_be_cancelled_keeps_its_place(node: WorkerNode) -> None:
    job, _ = job_rows.a_running_job(node)
    lifecycle.cancel(job.pk)
    assert queries.room("light") == Room(0, 1, 2)


def test_classes_do_not_count_each_other(node: WorkerNode) -> None:
    job_rows.a_node("heavy", processes=3)
    job_rows.a_queued_job("heavy")
    assert queries.room("light") == Room(0, 0, 2)
    assert queries.room("heavy") == Room(1, 0, 3)


@pytest.mark.parametrize(("beats", "slots"), [(2.5, 2), (3.5, 0)])
def test_a_node_counts_while_it_was_seen_within_three_beats(db: None, beats: float, slots: int) -> None:
    beat = _beat_of_an_old_server()
    job_rows.a_node(processes=2, seen_at=Now() - beats * beat)
    assert _room_at(beat).slots == slots


@pytest.mark.parametrize(("beats_behind", "slots"), [(2.5, 3), (3.5, 1)])
def test_right_after_a_start_of_the_database_the_newest_beat_stands_for_now(
    db: None, beats_behind: float, slots: int
) -> None:
    """P4: nobody could beat while the database was away, so silence until its return says nothing."""
    beat = _beat_of_a_young_server()
    newest = Now() - 10 * beat
    job_rows.a_node("heavy", processes=1, seen_at=newest)  # another class's beat tells the time as well
    job_rows.a_node("light", processes=1, seen_at=newest)
    job_rows.a_node("light", processes=2, seen_at=newest - beats_behind * beat)
    assert _room_at(beat).slots == slots


def test_a_beat_from_the_future_does_not_hide_the_nodes_that_beat_now(db: None) -> None:
    job_rows.a_node("heavy", processes=1, seen_at=Now() + timedelta(days=1))
    job_rows.a_node("light", processes=2, seen_at=Now())
    assert _room_at(_beat_of_a_young_server()).slots == 2


def test_five_beats_after_a_start_silence_counts_again(db: None) -> None:
    beat = _beat_of_an_old_server()
    job_rows.a_node(processes=1, seen_at=Now() - 10 * beat)
    assert _room_at(beat).slots == 0


def test_a_node_told_to_stop_counts_only_what_it_still_runs(node: WorkerNode) -> None:
    job_rows.a_running_job(node)
    WorkerNode.objects.filter(pk=node.pk).update(processes=5, stopping_at=Now())
    assert queries.room("light") == Room(0, 1, 1)
    job_rows.a_node(processes=2)
    assert queries.room("light") == Room(0, 1, 3)


def test_a_node_that_stopped_counts_nothing_though_it_was_just_seen(node: WorkerNode) -> None:
    WorkerNode.objects.filter(pk=node.pk).update(stopped_at=Now())
    assert queries.room("light").slots == 0


def _room_at(beat: Any) -> Room:
    with connection.cursor() as cursor:
        cursor.execute("SELECT waiting, running, slots FROM class_room_v1('light', %s)", [beat])
        return Room(*cursor.fetchone())


def _server_age() -> timedelta:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp() - pg_postmaster_start_time()")
        age: timedelta = cursor.fetchone()[0]
        return age


def _beat_of_a_young_server() -> timedelta:
    """Of which the server has seen one: it is younger than five."""
    return _server_age()


def _beat_of_an_old_server() -> timedelta:
    """Of which the server has seen ten: it is older than five."""
    return _server_age() / 10


# ── Types (P27) ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_type_that_no_node_knows_is_unavailable(node: WorkerNode) -> None:
    answer = submit(type="tests.unknown")
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.room) == ("type_unavailable", Room(0, 0, 2))
    assert not Job.objects.exists()


def test_one_node_that_knows_the_type_is_enough(node: WorkerNode) -> None:
    job_rows.a_node(types=("tests.new",))
    assert verdict(submit(type="tests.new")) == "admitted"


def test_a_type_known_in_another_class_only_is_unavailable(node: WorkerNode) -> None:
    job_rows.a_node("heavy", types=("tests.new",))
    assert verdict(submit(type="tests.new")) == "type_unavailable"


def test_with_no_node_any_type_may_wait(db: None) -> None:
    assert verdict(submit(type="tests.unknown")) == "admitted"


def test_full_goes_before_unknown(node: WorkerNode) -> None:
    job_rows.a_queued_job()
    job_rows.a_queued_job()
    assert verdict(submit(0, type="tests.unknown")) == "queue_full"


def test_while_the_only_node_stops_its_types_stay_known(node: WorkerNode) -> None:
    """A stopping node is still live; with none at all the job would be let wait too."""
    job_rows.a_running_job(node)
    WorkerNode.objects.filter(pk=node.pk).update(stopping_at=Now())
    assert verdict(submit(5)) == "admitted"


# ── Retry-After ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _refused(client: str = "tests") -> Rejected:
    answer = submit(0, client=job_rows.a_client(client))
    assert isinstance(answer, Rejected)
    return answer


def test_retry_after_is_the_configured_one_while_nothing_was_measured(node: WorkerNode) -> None:
    job_rows.a_queued_job()
    job_rows.a_queued_job()
    assert _refused().retry_after_seconds == 5


def test_retry_after_follows_the_measured_drain(node: WorkerNode) -> None:
    """10 departures in the last 60 s: one place comes free in 6 s, two in 12 s."""
    for _ in range(10):
        job_rows.a_finished_job(accepted_at=job_rows.later(-300), finished_at=job_rows.later(-20))
    job_rows.a_running_job(node)
    job_rows.a_running_job(node)
    assert _refused().retry_after_seconds == 6
    job_rows.a_queued_job()
    job_rows.a_queued_job()
    assert _refused("another").retry_after_seconds == 12


def test_retry_after_is_the_cap_when_no_worker_lives(db: None) -> None:
    assert _refused().retry_after_seconds == capacity.RETRY_AFTER_CAP_SECONDS
