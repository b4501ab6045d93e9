"""A caller of the HTTP API whose every call is in the history, with its outcome."""

import itertools
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx

from tests.history.events import (
    MISSING,
    CancelAnswered,
    CancelInvoked,
    CancelUnknown,
    ClassObserved,
    JobObserved,
    SubmitAccepted,
    SubmitInvoked,
    SubmitRefused,
    SubmitUnknown,
    SubmitUnsent,
)
from tests.history.recorder import History, now

RECORDED = "tests.recorded"
SUBMISSION = "submission"  # the label that carries a submission's name
ACCEPTED = {200, 202}
# Longer than any answer may take, so that what is called unknown was really cut.
TIMEOUT_SECONDS = 30.0
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout)


class RecordingApi:
    """One client; for one thread. `name` is its own within the history.

    A connection per call: a kept one that the server has closed would be an unknown answer that is nobody's fault.
    """

    def __init__(self, url: str, key: str, history: History, name: str) -> None:
        self._history = history
        self._name = name
        self._numbers = itertools.count(1)
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
        )

    def submit(
        self, params: dict[str, Any] | None = None, job_type: str = RECORDED, key: str = "", **fields: Any
    ) -> str | None:
        """The id of the job if it was accepted. Calls with one idempotency key must ask for the same."""
        call = self._call()
        submission = f"{self._history.name}/{key or call}"
        given = {"history": str(self._history.path), **(params or {})} if job_type == RECORDED else params or {}
        body = {"type": job_type, "params": given, "labels": {SUBMISSION: submission}, **fields}
        self._history.append(SubmitInvoked(call, submission, now(), key))
        try:
            response = self._http.post("/jobs", json=body, headers={"Idempotency-Key": key} if key else {})
        except _UNSENT as error:
            self._history.append(SubmitUnsent(call, repr(error), now()))
            return None
        except httpx.TransportError as error:
            self._history.append(SubmitUnknown(call, repr(error), now()))
            return None
        return self._submitted(call, response)

    def _submitted(self, call: str, response: httpx.Response) -> str | None:
        answer = _object(response)
        if response.status_code in ACCEPTED:
            job_id = str(answer.get("id", ""))
            self._history.append(SubmitAccepted(call, job_id, response.status_code, now()))
            return job_id
        self._history.append(SubmitRefused(call, response.status_code, str(answer.get("code", "")), now()))
        return None

    def cancel(self, job_id: str) -> int | None:
        """The status of the answer, if there was one."""
        call = self._call()
        self._history.append(CancelInvoked(call, job_id, now()))
        response = self._tried(lambda: self._http.delete(f"/jobs/{job_id}"))
        if isinstance(response, str):
            self._history.append(CancelUnknown(call, job_id, response, now()))
            return None
        answer = _object(response)
        job = answer.get("job", answer)
        state, asked = str(job.get("state", "")), str(job.get("cancel_requested_at") or "")
        self._history.append(CancelAnswered(call, job_id, response.status_code, state, asked, now()))
        return response.status_code

    def look(self, job_id: str) -> str | None:
        """The state of the job, or that there is none, if that was the answer."""
        asked_at = now()
        response = self._tried(lambda: self._http.get(f"/jobs/{job_id}"))
        if isinstance(response, str) or response.status_code not in {200, 404}:
            return None
        if response.status_code == 404:
            self._history.append(JobObserved(job_id, MISSING, "", "", asked_at, now()))
            return MISSING
        job = response.json()
        code, finished = (job["error"] or {}).get("code", ""), job["finished_at"] or ""
        self._history.append(JobObserved(job_id, job["state"], code, finished, asked_at, now()))
        return str(job["state"])

    def look_at_class(self, name: str) -> tuple[int, int] | None:
        """(waiting, running) of a class, if there was an answer."""
        response = self._tried(lambda: self._http.get(f"/classes/{name}"))
        if isinstance(response, str) or response.status_code != 200:
            return None
        seen = response.json()
        self._history.append(ClassObserved(name, seen["waiting"], seen["running"], now()))
        return seen["waiting"], seen["running"]

    def _tried(self, send: Callable[[], httpx.Response]) -> httpx.Response | str:
        """The answer, or why there is none."""
        try:
            return send()
        except httpx.TransportError as error:
            return repr(error)

    def _call(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def __enter__(self) -> "RecordingApi":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


def _object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer; empty if it holds none."""
    try:
        answer = response.json()
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
