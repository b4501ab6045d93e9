"""Batches of `tests.note` jobs, sent to a running stack and recorded like single submits."""

import itertools
from typing import Any

import httpx

from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.crowding import crowded
from tests.history.events import CancelInvoked, CancelUnknown, SubmitAccepted, SubmitInvoked, SubmitRefused
from tests.history.recorder import SUBMISSION, now

_calls = itertools.count(1)


def post(
    api: Api,
    diary: Diary,
    items: dict[str, dict[str, Any]],
    headers: dict[str, str] | None = None,
    key: str = "",
    **fields: Any,
) -> httpx.Response:
    """`items`: the params of each, by its name, which no other request of the test bears."""
    call, told = next(_calls), {"Idempotency-Key": key} if key else {}
    calls = {name: f"batch{call}-{name}" for name in items}
    for name in items:
        submission = _submission(diary, name)
        diary.history.append(SubmitInvoked(calls[name], submission, now(), f"{key}/{name}" if key else ""))
    jobs = {name: _job(diary, name, params) for name, params in items.items()}
    answer = api.http.post("/batches", json={"jobs": jobs, **fields}, headers={**(headers or {}), **told})
    for name in items:
        diary.history.append(_verdict(calls[name], answer, name))
    return answer


def _submission(diary: Diary, name: str) -> str:
    return f"{diary.history.name}/{name}"


def _job(diary: Diary, name: str, params: dict[str, Any]) -> dict[str, Any]:
    told = {"history": str(diary.history.path), **params}
    return {"type": "tests.note", "params": told, "labels": {SUBMISSION: _submission(diary, name)}}


def _verdict(call: str, answer: httpx.Response, name: str) -> SubmitAccepted | SubmitRefused:
    told = answer.json()
    if job_id := told.get("jobs", {}).get(name):
        return SubmitAccepted(call, job_id, 202, now())
    if "results" in told:
        code = told["results"][name]["error"]["code"]
        return SubmitRefused(call, 503, code, now(), crowded({**told, "code": code}) if "waiting" in told else None)
    return SubmitRefused(call, answer.status_code, told["code"], now(), crowded(told))


def cut_off(diary: Diary, job_id: str) -> None:
    """To be said of a job that its batch cancels: nobody asked for it by itself."""
    diary.history.append(CancelInvoked(f"cut-off-{job_id}", job_id, now()))
    diary.history.append(CancelUnknown(f"cut-off-{job_id}", job_id, "its batch was over", now()))
