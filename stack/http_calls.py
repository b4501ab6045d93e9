"""Plain HTTP calls to the web server of a stack, on the standard library."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers with lower-case names, the parsed JSON body (None if it is not JSON), seconds it took."""

    status: int
    headers: Mapping[str, str]
    body: Any
    seconds: float


class Caller:
    """Calls one server as one client. Raises OSError or http.client.HTTPException when there is no answer."""

    def __init__(self, port: int, key: str = "", timeout_seconds: float = 10.0) -> None:
        self._port = port
        self._timeout_seconds = timeout_seconds
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def get(self, path: str) -> Reply:
        return self._call("GET", path)

    def post(self, path: str, body: object) -> Reply:
        return self._call("POST", path, json.dumps(body).encode())

    def upload(self, path: str, content: bytes) -> Reply:
        return self._call("POST", path, content, "application/octet-stream")

    def delete(self, path: str) -> Reply:
        return self._call("DELETE", path)

    def _call(self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json") -> Reply:
        headers = self._headers | ({"Content-Type": content_type} if body is not None else {})
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout_seconds)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        seconds = time.perf_counter() - began
        return Reply(
            response.status, {name.lower(): value for name, value in response.getheaders()}, _parsed(raw), seconds
        )


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
