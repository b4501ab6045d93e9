"""Jobs as the documentation shows them; a test holds each against its schema."""

from typing import Any

ID = "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10"
NO_TIMES = {"wait_seconds": None, "run_seconds": None, "cpu_seconds": None, "peak_rss_bytes": None}

QUEUED_SUMMARY: dict[str, Any] = {
    "id": ID,
    "type": "numbers.sum_squares",
    "cost_class": "light",
    "state": "queued",
    "accepted_at": "2030-01-31T12:00:00.000Z",
    "started_at": None,
    "finished_at": None,
    "start_by": "2030-01-31T12:00:10.000Z",
    "deadline_at": None,
    "timeout_seconds": 10.0,
    "attempt": 0,
    "failures": 0,
    "max_attempts": 1,
    "cancel_requested_at": None,
    "progress": None,
    "result_expired": False,
    "error": None,
    "timings": NO_TIMES,
    "labels": {"team": "ops"},
    "links": {"self": f"/api/v1/jobs/{ID}"},
}
RUNNING_SUMMARY = {
    **QUEUED_SUMMARY,
    "state": "running",
    "started_at": "2030-01-31T12:00:00.800Z",
    "attempt": 1,
    "progress": {"fraction": 0.4, "note": "pass 4 of 10"},
    "timings": {**NO_TIMES, "wait_seconds": 0.8},
}
ENDED_SUMMARY = {
    **RUNNING_SUMMARY,
    "finished_at": "2030-01-31T12:00:02.900Z",
    "progress": {"fraction": 1.0, "note": ""},
    "timings": {"wait_seconds": 0.8, "run_seconds": 2.1, "cpu_seconds": 2.0, "peak_rss_bytes": 73_400_320},
}
SUCCEEDED_SUMMARY = {**ENDED_SUMMARY, "state": "succeeded"}
FAILED_SUMMARY = {
    **ENDED_SUMMARY,
    "state": "failed",
    "failures": 1,
    "error": {
        "code": "timeout",
        "message": "The job took longer than its limit.",
        "retryable": False,
        "stopped_by": "not_retryable",
        "details": None,
    },
}

QUEUED = {**QUEUED_SUMMARY, "result": None}
RUNNING = {**RUNNING_SUMMARY, "result": None}
SUCCEEDED = {**SUCCEEDED_SUMMARY, "result": {"sum": 14}}
FAILED = {**FAILED_SUMMARY, "result": None}
CANCELLED = {**QUEUED, "state": "cancelled", "finished_at": "2030-01-31T12:00:01.000Z"}
BEING_CANCELLED = {**RUNNING, "cancel_requested_at": "2030-01-31T12:00:01.500Z"}

CLASS = {
    "name": "light",
    "accepting": True,
    "paused": False,
    "waiting": 3,
    "max_waiting": 100,
    "running": 2,
    "slots": 2,
}
TYPE = {
    "name": "numbers.square",
    "description": "The square of n.",
    "cost_class": "heavy",
    "timeout_seconds": 30.0,
    "max_attempts": 1,
    "params_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "example": {"n": 12},
}
CLIENT = {
    "name": "shop",
    "scopes": ["jobs:cancel", "jobs:read", "jobs:submit"],
    "quotas": {"submits_per_minute": 60, "max_jobs": None, "jobs": 3},
    "limits": {
        "body_bytes": 81_920,
        "labels": 16,
        "page_size": 100,
        "wait_seconds": 60,
        "deadline_seconds": 31_622_400,
    },
}
CURSOR = "YmVmb3JlOjE3"  # before:17
CHANGES_CURSOR = "YWZ0ZXI6MTg5NjA5MTIwMjkwMDAwMDoxNw=="  # after:1896091202900000:17
