"""Callers that send more than can be done, by the clock or as they are told, and what became of it."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx

MOST_THREADS = 64


@dataclass
class Told:
    """Answers to submits."""

    accepted: list[str] = field(default_factory=list)  # ids
    refused: Counter[str] = field(default_factory=Counter)  # by code
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, response: httpx.Response) -> bool:
        """Whether it was accepted."""
        with self._lock:
            if response.status_code == 202:
                self.accepted.append(response.json()["id"])
                return True
            assert response.status_code == 503, response.text
            self.refused[response.json()["code"]] += 1
            return False

    @property
    def asked(self) -> int:
        return len(self.accepted) + self.refused.total()

    @property
    def refused_share(self) -> float:
        return self.refused.total() / self.asked


class Caller:
    """A client with its key; its connections are kept, as a back end's are."""

    def __init__(self, url: str, key: str, name: str) -> None:
        self.name = name
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            limits=httpx.Limits(max_connections=2 * MOST_THREADS, max_keepalive_connections=2 * MOST_THREADS),
            timeout=30,
            trust_env=False,
        )

    def submit(self, seconds: float, cost_class: str = "light", key: str | None = None) -> httpx.Response:
        body = {"type": "probe.sleep", "params": {"seconds": seconds, "cost_class": cost_class}}
        return self._http.post("/jobs", json=body, headers={"Idempotency-Key": key} if key else {})

    def wait_for(self, job_id: str) -> None:
        while self._http.get(f"/jobs/{job_id}", headers={"Prefer": "wait=30"}).json()["state"] in ("queued", "running"):
            pass

    def class_view(self, name: str) -> dict[str, Any]:
        return dict(self._http.get(f"/classes/{name}").json())

    def send(self, rate: float, seconds: float, run_seconds: float, cost_class: str = "light") -> Told:
        """So many submits a second, whatever is answered."""
        told = Told()
        began = time.monotonic()
        with ThreadPoolExecutor(MOST_THREADS) as threads:
            for number in range(round(rate * seconds)):
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                threads.submit(lambda: told.note(self.submit(run_seconds, cost_class)))
        return told

    @contextmanager
    def obeying(self, population: int, run_seconds: float, rest_seconds: float) -> Iterator[Told]:
        """So many who each submit, come back under their key when they are told to, wait for the end, rest and begin anew."""
        told, stop = Told(), threading.Event()

        def live(number: int) -> None:
            job = 0
            while not stop.is_set():
                job += 1
                key = f"{self.name}-{id(told)}-{number}-{job}"
                while not told.note(response := self.submit(run_seconds, key=key)):
                    if stop.wait(int(response.headers["Retry-After"])):
                        return
                self.wait_for(response.json()["id"])
                stop.wait(rest_seconds)

        with ThreadPoolExecutor(population) as threads:
            alive = [threads.submit(live, number) for number in range(population)]
            try:
                yield told
            finally:
                stop.set()
            for one in alive:
                one.result(60)

    def __enter__(self) -> "Caller":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
