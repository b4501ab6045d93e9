"""What an operator sees: counters from the start, over all processes; logs that tell no secrets."""

import json
from collections import Counter
from pathlib import Path

import psycopg

from stack.local import Stack
from tests.acceptance import figures
from tests.acceptance.bursts import ids_of, refusals_of, submit_at_once
from tests.acceptance.diary import Diary
from tests.acceptance.figures import counted, figure
from tests.api_client import Api
from tests.waiting import eventually

MARKER = "param-that-no-log-may-hold"
SLOTS, WAITING = 2, 8
BURST = 16


def test_every_counter_was_there_at_0_before_anything_happened(metrics_at_start: str) -> None:
    for name in ("light", "heavy"):
        assert figure(metrics_at_start, "jobs_admitted_total", cost_class=name) == 0
        for reason in ("queue_full", "type_unavailable", "unavailable"):
            assert figure(metrics_at_start, "jobs_rejected_total", cost_class=name, reason=reason) == 0
        for outcome in ("succeeded", "failed", "cancelled", "expired"):
            assert figure(metrics_at_start, "jobs_finished_total", cost_class=name, outcome=outcome) == 0
        for admitted in ("true", "false"):
            assert figure(metrics_at_start, "jobs_returned_total", cost_class=name, admitted=admitted) == 0
        for count in ("job_wait_seconds_count", "job_start_late_seconds_count", "job_run_seconds_count"):
            assert figure(metrics_at_start, count, cost_class=name) == 0
        for depth in ("jobs_waiting", "jobs_running", "jobs_oldest_waiting_seconds"):
            assert figure(metrics_at_start, depth, cost_class=name) == 0
    assert figure(metrics_at_start, "stale_settles_total") == 0
    assert figure(metrics_at_start, "wakeups_failed_total") == 0


def test_depth_gauges_follow_within_two_seconds(stack: Stack, api: Api, diary: Diary) -> None:
    def depth() -> tuple[float | None, ...]:
        names = ("jobs_slots", "jobs_queue_capacity", "jobs_running", "jobs_waiting")
        metrics = figures.text(stack)
        return tuple(figure(metrics, name, cost_class="heavy") for name in names)

    eventually(lambda: depth() == (SLOTS, SLOTS + WAITING, 0, 0), 2)
    jobs = [api.submit("tests.note", diary.params(f"d{i}", cost_class="heavy", held=True)) for i in range(5)]
    eventually(lambda: depth() == (SLOTS, SLOTS + WAITING, SLOTS, 3), 2)
    assert 0 < counted(stack, "jobs_oldest_waiting_seconds", cost_class="heavy") < 10
    diary.open_gate()
    for job_id in jobs:
        api.ended(job_id)
    eventually(lambda: depth() == (SLOTS, SLOTS + WAITING, 0, 0), 2)


def test_counters_add_up_over_all_processes(stack: Stack, api: Api, diary: Diary) -> None:
    before = figures.text(stack)

    def moved(name: str, **labels: str) -> float:
        return counted(stack, name, **labels) - (figure(before, name, **labels) or 0)

    burst = submit_at_once(stack, diary, [diary.params(f"n{i}", cost_class="heavy", held=True) for i in range(BURST)])
    accepted, refused = ids_of(burst), refusals_of(burst)
    assert (len(accepted), len(refused)) == (SLOTS + WAITING, BURST - SLOTS - WAITING)
    eventually(lambda: len(diary.began()) == SLOTS)
    queued = next(job_id for job_id in accepted if api.job(job_id)["state"] == "queued")
    assert api.cancel(queued).status_code == 200
    diary.open_gate()
    assert api.ended(api.submit("tests.note", diary.params("fails", fails=True)))["state"] == "failed"
    for job_id in accepted:
        api.ended(job_id)

    assert moved("jobs_admitted_total", cost_class="heavy") == len(accepted)
    for reason, told in Counter(response.json()["code"] for response in refused).items():
        assert moved("jobs_rejected_total", cost_class="heavy", reason=reason) == told
    assert moved("jobs_finished_total", cost_class="heavy", outcome="succeeded") == len(accepted) - 1
    assert moved("jobs_finished_total", cost_class="heavy", outcome="cancelled") == 1
    assert moved("jobs_finished_total", cost_class="light", outcome="failed") == 1
    assert moved("job_run_seconds_count", cost_class="heavy") == len(accepted) - 1
    assert moved("job_wait_seconds_count", cost_class="light") == 1
    assert moved("jobs_admitted_total", cost_class="light") == 1
    submits = {"route": "api/v1/jobs", "method": "POST"}
    assert moved("http_request_seconds_count", **submits, status="202") == len(accepted) + 1
    assert moved("http_request_seconds_count", **submits, status="503") == len(refused)
    assert moved("job_start_late_seconds_count", cost_class="heavy") > 0


def test_what_was_refused_is_told_by_the_minute_within_seconds(stack: Stack, api: Api, diary: Diary) -> None:
    def told() -> int:
        with psycopg.connect(stack.database_url) as database:
            rows = database.execute(
                "SELECT sum((refused ->> 'deadline_infeasible')::int) FROM jobs_classminute"
            ).fetchone()
        return (rows and rows[0]) or 0

    before = told()
    refused = [api.post("tests.note", diary.params("late"), deadline_at="2020-01-01T00:00:00Z") for _ in range(3)]
    assert [answer.status_code for answer in refused] == [422] * 3
    eventually(lambda: told() == before + 3, 10)


def test_a_request_can_be_followed_by_its_id_and_its_trace_from_the_door_to_the_end_of_its_job(
    stack: Stack, api: Api, diary: Diary
) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"X-Request-Id": "follow-me-1", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    answer = api.post("tests.note", diary.params("followed"), headers=headers)
    job_id = answer.json()["id"]
    api.ended(job_id)
    assert answer.headers["X-Request-Id"] == "follow-me-1"
    known = {"request_id": "follow-me-1", "trace_id": trace}
    assert _events(stack.log("web"), **known) == ["request"]
    assert eventually(lambda: _events(stack.log("worker-light"), **known, job_id=job_id)) == [
        "job_started",
        "attempt_ended",
        "job_settled",
    ]


def _events(log: Path, **having: str) -> list[str]:
    """The events of those lines, all of them JSON objects, that carry all of `having`."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if "follow-me" in line]
    return [line["event"] for line in lines if having.items() <= line.items()]


def test_no_log_of_any_process_holds_a_param_or_a_key(stack: Stack, api: Api, diary: Diary) -> None:
    """Jobs that end well, that fail with a param in the exception, that are refused as invalid."""
    done = api.submit("tests.note", diary.params(MARKER))
    failed = api.submit("tests.note", diary.params(MARKER, fails=True))
    assert [api.ended(job_id)["state"] for job_id in (done, failed)] == ["succeeded", "failed"]
    assert api.post("tests.note", {**diary.params(MARKER), MARKER: MARKER}).status_code == 422
    assert api.post(MARKER).status_code == 422
    assert _logs_that_hold(stack, done) != [], "the right place is searched"
    assert _logs_that_hold(stack, MARKER) == []
    for secret in ("demo-key", "admin-password", "flower-password", "supervisor-password", "secret-key"):
        assert _logs_that_hold(stack, (stack.data_dir / secret).read_text().strip()) == []


def test_a_statement_that_fails_in_the_database_logs_no_param_either(stack: Stack, api: Api, diary: Diary) -> None:
    """While somebody else holds the class lock a submit gets its turn never, and 503 after a second (P1)."""
    with psycopg.connect(stack.database_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('class:light', 0))")
        refused = api.post("tests.note", diary.params(f"another-{MARKER}"))
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert _logs_that_hold(stack, f"another-{MARKER}") == []


def _logs_that_hold(stack: Stack, text: str) -> list[str]:
    files = [file for file in (stack.data_dir / "logs").rglob("*") if file.is_file()]
    return [file.name for file in files if text in file.read_text(errors="replace")]
