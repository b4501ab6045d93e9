"""A caller of the HTTP API, as tests need one."""

import itertools
from types import TracebackType
from typing import Any

import httpx

from tests.history.crowding import crowded
from tests.history.events import (
    MISSING,
    CancelAnswered,
    CancelInvoked,
    CancelUnknown,
    ClassObserved,
    Event,
    JobObserved,
    SubmitAccepted,
    SubmitInvoked,
    SubmitRefused,
    SubmitUnknown,
    SubmitUnsent,
)
from tests.history.recorder import RECORDED, SUBMISSION, History, now
from tests.published_schema import as_published
from tests.waiting import eventually

LIVE = {"queued", "running"}
ACCEPTED = {200, 202}
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout)
_clients = itertools.count(1)


class Api:
    """Speaks to a running web process with one key; any number of threads may share one.

    Given a history, each submit, cancel and look is in it, with its outcome. A connection per call: a kept one that the
    server has closed would be an unknown answer that is nobody's fault.
    """

    def __init__(self, url: str, key: str, history: History | None = None, timeout_seconds: float = 10.0) -> None:
        self._history = history
        self._name = f"client{next(_clients)}"
        self._numbers = itertools.count(1)
        self.http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            timeout=timeout_seconds,
            trust_env=False,
            event_hooks={"response": [as_published]},
        )

    def post(
        self,
        job_type: str,
        params: dict[str, Any] | None = None,
        key: str = "",
        headers: dict[str, str] | None = None,
        **fields: Any,
    ) -> httpx.Response:
        """The answer to a submit, whatever it is. Calls with one idempotency key must ask for the same."""
        call = self._call()
        body = {"type": job_type, "params": params or {}, **fields}
        submission = self._mark(body, key or call)
        headers = {**(headers or {}), **({"Idempotency-Key": key} if key else {})}
        self._tell(SubmitInvoked(call, submission, now(), key))
        try:
            response = self.http.post("/jobs", json=body, headers=headers)
        except _UNSENT as error:
            self._tell(SubmitUnsent(call, repr(error), now()))
            raise
        except httpx.TransportError as error:
            self._tell(SubmitUnknown(call, repr(error), now()))
            raise
        self._tell(_verdict(call, response))
        return response

    def _mark(self, body: dict[str, Any], name: str) -> str:
        """Name the work asked for in the job itself, and the history where its bodies write, if there is one."""
        if self._history is None:
            return ""
        submission = f"{self._history.name}/{name}"
        body["labels"] = {**body.get("labels", {}), SUBMISSION: submission}
        if body["type"] in RECORDED:
            body["params"] = {"history": str(self._history.path), **body["params"]}
        return submission

    def submit(self, job_type: str, params: dict[str, Any] | None = None, **fields: Any) -> str:
        """The id of an accepted job; fails if it is not accepted."""
        response = self.post(job_type, params, **fields)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def cancel(self, job_id: str) -> httpx.Response:
        call = self._call()
        self._tell(CancelInvoked(call, job_id, now()))
        try:
            response = self.http.delete(f"/jobs/{job_id}")
        except httpx.TransportError as error:
            self._tell(CancelUnknown(call, job_id, repr(error), now()))
            raise
        answer = _object(response)
        if answer.get("outcome_unknown"):
            self._tell(CancelUnknown(call, job_id, response.text, now()))
            return response
        job = answer.get("job", answer)
        state, asked = str(job.get("state", "")), str(job.get("cancel_requested_at") or "")
        self._tell(CancelAnswered(call, job_id, response.status_code, state, asked, now()))
        return response

    def look(self, job_id: str) -> httpx.Response:
        """The answer to a read of a job, whatever it is."""
        asked_at = now()
        response = self.http.get(f"/jobs/{job_id}")
        if response.status_code == 404:
            self._tell(JobObserved(job_id, MISSING, "", "", asked_at, now()))
        elif response.status_code == 200:
            job = response.json()
            code, finished = (job["error"] or {}).get("code", ""), job["finished_at"] or ""
            self._tell(JobObserved(job_id, job["state"], code, finished, asked_at, now()))
        return response

    def job(self, job_id: str) -> dict[str, Any]:
        response = self.look(job_id)
        assert response.status_code == 200, response.text
        return dict(response.json())

    def ended(self, job_id: str, within_seconds: float = 20.0) -> dict[str, Any]:
        """The job once it is terminal."""
        eventually(lambda: self.job(job_id)["state"] not in LIVE, within_seconds)
        return self.job(job_id)

    def in_state(self, job_id: str, state: str, within_seconds: float = 10.0) -> dict[str, Any]:
        eventually(lambda: self.job(job_id)["state"] == state, within_seconds, 0.05)
        return self.job(job_id)

    def cost_class(self, name: str) -> dict[str, Any]:
        response = self.http.get(f"/classes/{name}")
        assert response.status_code == 200, response.text
        seen = dict(response.json())
        self._tell(ClassObserved(name, seen["waiting"], seen["running"], now()))
        return seen

    def drained(self, name: str, within_seconds: float = 20.0) -> None:
        """Waits until nothing waits and nothing runs in the class."""
        eventually(lambda: (c := self.cost_class(name))["waiting"] == 0 and c["running"] == 0, within_seconds)

    def _call(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def _tell(self, event: Event) -> None:
        if self._history is not None:
            self._history.append(event)

    def __enter__(self) -> "Api":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()


def _verdict(call: str, response: httpx.Response) -> SubmitAccepted | SubmitRefused | SubmitUnknown:
    answer = _object(response)
    if answer.get("outcome_unknown"):
        return SubmitUnknown(call, response.text, now())
    if response.status_code in ACCEPTED:
        return SubmitAccepted(call, str(answer.get("id", "")), response.status_code, now())
    return SubmitRefused(call, response.status_code, str(answer.get("code", "")), now(), crowded(answer))


def _object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer; empty if it holds none."""
    try:
        answer = response.json()
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
