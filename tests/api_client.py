"""A caller of the HTTP API, as tests need one."""

from types import TracebackType
from typing import Any

import httpx

from tests.waiting import eventually

LIVE = {"queued", "running"}


class Api:
    """Speaks to a running web process with one key."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=10.0, trust_env=False
        )

    def post(self, job_type: str, params: dict[str, Any] | None = None, **fields: Any) -> httpx.Response:
        return self.http.post("/jobs", json={"type": job_type, "params": params or {}, **fields})

    def submit(self, job_type: str, params: dict[str, Any] | None = None, **fields: Any) -> str:
        """The id of an accepted job; fails if it is not accepted."""
        response = self.post(job_type, params, **fields)
        assert response.status_code == 202, response.text
        return str(response.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        response = self.http.get(f"/jobs/{job_id}")
        assert response.status_code == 200, response.text
        return dict(response.json())

    def cancel(self, job_id: str) -> httpx.Response:
        return self.http.delete(f"/jobs/{job_id}")

    def ended(self, job_id: str, within_seconds: float = 20.0) -> dict[str, Any]:
        """The job once it is terminal."""
        eventually(lambda: self.job(job_id)["state"] not in LIVE, within_seconds)
        return self.job(job_id)

    def in_state(self, job_id: str, state: str, within_seconds: float = 10.0) -> dict[str, Any]:
        eventually(lambda: self.job(job_id)["state"] == state, within_seconds)
        return self.job(job_id)

    def cost_class(self, name: str) -> dict[str, Any]:
        response = self.http.get(f"/classes/{name}")
        assert response.status_code == 200, response.text
        return dict(response.json())

    def drained(self, name: str, within_seconds: float = 20.0) -> None:
        """Waits until nothing waits and nothing runs in the class."""
        eventually(lambda: (c := self.cost_class(name))["waiting"] == 0 and c["running"] == 0, within_seconds)

    def __enter__(self) -> "Api":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
