"""A caller of the API without a server in between, and what every error of the API must look like."""

import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db.models.functions import Now
from django.test import Client

from jobs import keys
from jobs.lifecycle import Claim
from jobs.models import ApiClient, WorkerNode
from tests.job_rows import a_node, claim
from tests.published_schema import must_be_published

BASE = "/api/v1"
PROBE = "probe.sleep"
STANDARD_MEMBERS = {"type", "title", "status", "detail", "code", "retryable"}
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Web(Client):
    """Anybody's browser or program. Each answer of the API must be as its published schema says."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        path = str(request["PATH_INFO"])
        body = b"" if response.streaming else response.content
        must_be_published(request["REQUEST_METHOD"], path, response.status_code, response.headers, body)
        return response


class InProcessApi:
    """A client of its own with a key of its own; all scopes, or these."""

    def __init__(self, *scopes: str) -> None:
        self.client = ApiClient.objects.create(name=f"client {uuid4()}")
        self.key = keys.new_key(self.client, list(scopes) or keys.ALL_SCOPES)
        self.client.keys.update(last_used_at=Now())  # so that no request here is the one that writes it
        self._web = Web(raise_request_exception=False)

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **environ: Any,
    ) -> Any:
        """`environ` goes into the WSGI environment as it is."""
        environ.setdefault("CONTENT_TYPE", content_type)  # the test client drops it when there is no body
        headers = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        return self._web.generic(method, path, body, content_type, headers=headers, **environ)

    def raw(self, body: bytes, content_type: str = "application/json", **environ: Any) -> Any:
        """POST these very bytes to /jobs."""
        return self.send("POST", f"{BASE}/jobs", body, content_type, **environ)

    def json(self, body: Any, headers: dict[str, str] | None = None) -> Any:
        """POST this value to /jobs."""
        return self.raw(_as_bytes(body), headers=headers)

    def post(self, job_type: str, params: dict[str, Any] | None = None, **fields: Any) -> Any:
        return self.json({"type": job_type, "params": params or {}, **fields})

    def submit(self, job_type: str = PROBE, params: dict[str, Any] | None = None, **fields: Any) -> str:
        """The id of an accepted job."""
        response = self.post(job_type, params or {"seconds": 0}, **fields)
        assert response.status_code == 202, response.content
        return str(response.json()["id"])

    def get(self, path: str, headers: dict[str, str] | None = None) -> Any:
        return self.send("GET", f"{BASE}{path}", headers=headers)

    def job(self, job_id: str) -> dict[str, Any]:
        response = self.get(f"/jobs/{job_id}")
        assert response.status_code == 200, response.content
        return dict(response.json())

    def cancel(self, job_id: str) -> Any:
        return self.send("DELETE", f"{BASE}/jobs/{job_id}")


def a_probe_node(cost_class: str = "light", processes: int = 1, types: tuple[str, ...] = (PROBE,)) -> WorkerNode:
    """A node that runs `probe.sleep`, or these types, and whose last beat does not grow old while a test runs."""
    return a_node(cost_class, processes, types, seen_at=Now() + timedelta(hours=1))


def claim_probe(node: WorkerNode) -> Claim:
    """The first job that waits in the node's class, now running."""
    claimed = claim(node, node.cost_class, (PROBE,))
    assert claimed is not None
    return claimed


def problem(response: Any, status: int, code: str, retryable: bool = False) -> dict[str, Any]:
    """The members beside the standard ones, once everything that all errors share was checked."""
    assert response.status_code == status, response.content
    body = dict(response.json())
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["Cache-Control"] == "no-store"
    assert REQUEST_ID.fullmatch(response.headers["X-Request-Id"])
    assert body.keys() >= STANDARD_MEMBERS
    assert (body["status"], body["code"], body["retryable"]) == (status, code, retryable)
    assert ("Retry-After" in response.headers) is retryable
    assert body["type"].endswith(f":{code}")
    assert body["title"]
    assert body["detail"]
    return {name: value for name, value in body.items() if name not in STANDARD_MEMBERS}


def _as_bytes(body: Any) -> bytes:
    return json.dumps(body).encode()
