"""Submits sent by hand over a socket, as slow, odd and dying callers do; recorded like those of every other client."""

import json
import socket
from types import TracebackType
from typing import Any, Self

from stack.local import Stack
from tests.acceptance import records
from tests.acceptance.diary import Diary
from tests.history.crowding import crowded
from tests.history.events import SubmitAccepted, SubmitInvoked, SubmitRefused
from tests.history.recorder import SUBMISSION, now
from tests.published_schema import must_be_published
from tests.waiting import eventually


class RawSubmit:
    """One `tests.note` job, asked for over one connection. `body` is what is to be sent behind a head."""

    address = "/api/v1/jobs"

    def __init__(self, stack: Stack, diary: Diary, name: str, **params: Any) -> None:
        self._stack, self._history, self._call = stack, diary.history, f"raw-{name}"
        self.submission = f"{self._history.name}/{name}"
        told = {"history": str(self._history.path), **diary.params(name, **params)}
        self.body = json.dumps({"type": "tests.note", "params": told, "labels": {SUBMISSION: self.submission}}).encode()

    def __enter__(self) -> Self:
        self._connection = socket.create_connection(("127.0.0.1", self._stack.port), timeout=20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def send_head(self, *headers: str) -> None:
        always = (f"Host: 127.0.0.1:{self._stack.port}", f"Authorization: Bearer {self._stack.key}")
        lines = [f"POST {self.address} HTTP/1.1", *always, "Content-Type: application/json", *headers, "", ""]
        self.send("\r\n".join(lines).encode())

    def send(self, some: bytes) -> None:
        self._connection.sendall(some)

    def answer(self) -> tuple[int, dict[str, Any]]:
        """The status and the JSON of the answer that comes. Only who reads it was told anything, so only then it is recorded."""
        self._history.append(SubmitInvoked(self._call, self.submission, now()))
        status, told = self._read()
        if status == 202:
            self._history.append(SubmitAccepted(self._call, str(told["id"]), status, now()))
        else:
            self._history.append(SubmitRefused(self._call, status, str(told["code"]), now(), crowded(told)))
        return status, told

    def leave(self) -> str:
        """Without an answer, once the job is there; its id, which the caller was never told."""
        job_id = eventually(lambda: records.job_of(self._stack.database_url, self.submission))
        assert job_id is not None
        self._history.append(SubmitInvoked(self._call, self.submission, now()))
        self._history.append(SubmitAccepted(self._call, job_id, 202, now()))
        self._connection.close()
        return job_id

    def _read(self) -> tuple[int, dict[str, Any]]:
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += self._more()
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
        while len(body) < length:
            body += self._more()
        headers = dict(line.decode("latin-1").split(": ", 1) for line in head.split(b"\r\n")[1:])
        status = int(head.split(b" ")[1])
        must_be_published("POST", self.address, status, headers, body)
        return status, json.loads(body)

    def _more(self) -> bytes:
        more = self._connection.recv(65_536)
        assert more, "the connection ended before the answer was whole"
        return more
