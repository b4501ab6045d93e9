"""Jobs as the documentation shows them; a test holds each against its schema."""

from typing import Any

ID = "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10"
NO_TIMES = {"wait_seconds": None, "run_seconds": None, "cpu_seconds": None, "peak_rss_bytes": None}

QUEUED_SUMMARY: dict[str, Any] = {
    "id": ID,
    "type": "numbers.sum_squares",
    "cost_class": "light",
    "state": "queued",
    "priority": 0,
    "flow": "tenant-7",
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
    "links": {"self": f"/api/v1/jobs/{ID}", "batch": None},
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

ARTIFACT = {
    "name": "table.csv",
    "bytes": 16,
    "sha256": "f8f1d3182a60ba263284110ededcb608d185f0b72111fa713ad7a35cdc622fa1",
    "content_type": "text/csv",
    "link": f"/api/v1/jobs/{ID}/artifacts/table.csv",
}
WAITING = {
    "position": 3,
    "estimated_start_at": "2030-01-31T12:00:04.500Z",
    "estimated_start_p95_at": "2030-01-31T12:00:09.200Z",
    "held_by": None,
}
QUEUED = {**QUEUED_SUMMARY, "result": None, "artifacts": [], "waiting": WAITING}
RUNNING = {**RUNNING_SUMMARY, "result": None, "artifacts": [], "waiting": None}
SUCCEEDED = {**SUCCEEDED_SUMMARY, "result": {"sum": 14}, "artifacts": [ARTIFACT], "waiting": None}
FAILED = {**FAILED_SUMMARY, "result": None, "artifacts": [], "waiting": None}
CANCELLED = {**QUEUED, "waiting": None, "state": "cancelled", "finished_at": "2030-01-31T12:00:01.000Z"}
BEING_CANCELLED = {**RUNNING, "cancel_requested_at": "2030-01-31T12:00:01.500Z"}

OTHER_ID = "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b11"
BATCH_ID = "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b0f"
_NO_COUNTS = {
    "total": 2,
    "ok": 0,
    "failed": 0,
    "cancelled": 0,
    "deadline_exceeded": 0,
    "refused": 0,
    "pending": 0,
}
RUNNING_BATCH: dict[str, Any] = {
    "id": BATCH_ID,
    "state": "running",
    "atomic": True,
    "accepted_at": "2030-01-31T12:00:00.000Z",
    "deadline_at": "2030-01-31T12:00:01.200Z",
    "cancel_requested_at": None,
    "sealed_at": None,
    "partial": True,
    "counts": {**_NO_COUNTS, "pending": 2},
    "results": {},
    "jobs": {"a1": ID, "a2": OTHER_ID},
    "links": {"self": f"/api/v1/batches/{BATCH_ID}"},
}
_A1 = {"ok": True, "data": {"sum": 14}, "job": ID}


def _not_done(code: str, message: str, retryable: bool, job: str | None = OTHER_ID) -> dict[str, Any]:
    error = {"code": code, "message": message, "retryable": retryable, "stopped_by": None, "details": None}
    return {"ok": False, "error": error, "job": job}


CLASS_WAS_FULL = _not_done("queue_full", "Its class was full.", True, job=None)
ADMITTED_IN_PART = {
    **RUNNING_BATCH,
    "atomic": False,
    "counts": {**_NO_COUNTS, "refused": 1, "pending": 1},
    "results": {"a2": CLASS_WAS_FULL},
    "jobs": {"a1": ID, "a2": None},
    "room": {"light": 0},
}
CUT_OFF_BATCH = {
    **RUNNING_BATCH,
    "state": "finished",
    "sealed_at": "2030-01-31T12:00:01.200Z",
    "counts": {**_NO_COUNTS, "ok": 1, "deadline_exceeded": 1},
    "results": {
        "a1": _A1,
        "a2": _not_done("deadline_exceeded", "It had not ended at the batch's deadline, and was cancelled.", False),
    },
}
CANCELLED_BATCH = {
    **RUNNING_BATCH,
    "state": "cancelled",
    "cancel_requested_at": "2030-01-31T12:00:01.000Z",
    "sealed_at": "2030-01-31T12:00:01.000Z",
    "counts": {**_NO_COUNTS, "ok": 1, "cancelled": 1},
    "results": {"a1": _A1, "a2": _not_done("cancelled", "It was cancelled.", False)},
}

UPLOAD = {
    "id": ID,
    "bytes": 16,
    "sha256": ARTIFACT["sha256"],
    "created_at": "2030-01-31T12:00:00.000Z",
    "kept_until": "2030-02-01T12:00:00.000Z",
    "links": {"self": f"/api/v1/uploads/{ID}"},
}

CLASS = {
    "name": "light",
    "accepting": True,
    "paused": False,
    "draining": False,
    "waiting": 3,
    "max_waiting": 100,
    "running": 2,
    "slots": 2,
    "workers": 1,
    "throughput_per_second": 1.25,
    "estimated_wait_seconds": {"p50": 3.1, "p95": 6.4},
    "retry_after_seconds": 1,
    "backlog_seconds": 3.2,
    "max_backlog_seconds": 8.0,
    "observed_at": "2030-01-31T12:00:00.000Z",
    "timeout_seconds": 10.0,
    "ceiling_seconds": 30.0,
    "max_wait_seconds": 10.0,
    "params_bytes": 65_536,
    "result_bytes": 1_048_576,
}
TYPE = {
    "name": "numbers.square",
    "description": "The square of n.",
    "cost_class": "heavy",
    "timeout_seconds": 30.0,
    "ceiling_seconds": 900.0,
    "max_wait_seconds": 60.0,
    "params_bytes": 65_536,
    "result_bytes": 1_048_576,
    "max_attempts": 1,
    "params_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "example": {"n": 12},
}
CONTROL = {
    "kind": "class",
    "name": "heavy",
    "settings": [
        {
            "field": "paused",
            "value": False,
            "declared": False,
            "source": "default",
            "changed_at": None,
            "changed_by": None,
            "why": "",
        },
        {
            "field": "max_waiting",
            "value": 20,
            "declared": 8,
            "source": "operator",
            "changed_at": "2030-01-31T12:00:00.000Z",
            "changed_by": "ops (API)",
            "why": "the night's reports",
        },
    ],
}
CLIENT = {
    "name": "shop",
    "suspended": False,
    "weight": 1.0,
    "scopes": ["jobs:cancel", "jobs:read", "jobs:submit"],
    "quotas": {
        "submits_per_minute": 60,
        "submits": 12,
        "max_jobs": None,
        "jobs": 3,
        "max_running": 2,
        "running": 2,
        "max_uploads_bytes": 1_073_741_824,
        "uploads_bytes": 16,
    },
    "limits": {
        "body_bytes": 81_920,
        "batch_jobs": 100,
        "batch_bytes": 4_194_304,
        "upload_bytes": 67_108_864,
        "labels": 16,
        "page_size": 100,
        "wait_seconds": 60,
        "deadline_seconds": 31_622_400,
    },
}
CURSOR = "YmVmb3JlOjE3"  # before:17
CHANGES_CURSOR = "YWZ0ZXI6MTg5NjA5MTIwMjkwMDAwMDoxNw=="  # after:1896091202900000:17
