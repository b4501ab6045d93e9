"""Connections that send slowly, or nothing: each has its time, and while they have it nobody else waits for them.

What it takes to bound them all is in docs/decisions/0009-serving.md. Callers whose bodies come slowly, but come, are in test_serving.py.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from stack.local import Stack
from tests.acceptance.conftest import ARRIVAL_SECONDS
from tests.acceptance.diary import Diary
from tests.api_client import Api

EACH = 60  # connections of each kind
# The machine may be busy; and a drop that comes at the last moment is not lost.
LATE_SECONDS = 6.0
DROP_SECONDS = 0.5
WAIT_SECONDS = ARRIVAL_SECONDS + 2
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds

HEAD = b"GET /api/v1/classes HTTP/1.1\r\nHost: 127.0.0.1\r\n"
STRANGER = b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
KEY = b"<key>"  # in the place of the stack's own
POST = STRANGER + b"Authorization: Bearer " + KEY + b"\r\n"


@dataclass(frozen=True)
class Hostile:
    """What a connection begins with, and one byte that it sends again and again after that.

    statuses: one of which it is answered with, if there are any.
    """

    begins: bytes
    drops: bytes = b""
    statuses: tuple[int, ...] = ()

    def with_key(self, key: str) -> "Hostile":
        return replace(self, begins=self.begins.replace(KEY, key.encode()))

    @property
    def answers(self) -> set[tuple[int, ...]]:
        """What it may be told before it is closed: nothing, or one of the statuses."""
        return {(status,) for status in self.statuses} or {()}


HOSTILE = {
    "silence": Hostile(b""),
    "the beginning of another protocol": Hostile(b"PRI * HT"),
    "half a line": Hostile(b"GET /api/v1/cl"),
    "a line that drips": Hostile(b"GET /", b"a"),
    "a header that drips": Hostile(HEAD + b"X-A: ", b"a"),
    "a head without its end": Hostile(HEAD),
    "nothing after an answer": Hostile(HEAD + b"\r\n", statuses=(401,)),
    "a second head that drips": Hostile(HEAD + b"\r\n" + HEAD + b"X-A: ", b"a", (401,)),
    "a body that drips": Hostile(POST + b"Content-Length: 10000\r\n\r\n", b"a", (408,)),
    "a stranger's body that drips": Hostile(STRANGER + b"Content-Length: 10000\r\n\r\n", b"a", (401,)),
    "a chunk that drips": Hostile(POST + b"Transfer-Encoding: chunked\r\n\r\nfff\r\n", b"a", (408,)),
    "a chunk's size that drips": Hostile(POST + b"Transfer-Encoding: chunked\r\n\r\n", b"0", (408, 400)),
}


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    return four_webs


@dataclass(frozen=True)
class Ended:
    seconds: float
    told: bytes

    @property
    def statuses(self) -> tuple[int, ...]:
        return tuple(int(part[:3]) for part in self.told.split(b"HTTP/1.1 ")[1:])


@pytest.mark.timeout(120)
def test_hundreds_of_connections_that_send_slowly_or_nothing_are_closed_in_time_and_hold_up_nobody(
    stack: Stack, api: Api, diary: Diary
) -> None:
    """And who only waits for an answer, longer than that, is waited with."""
    job_id = api.submit("tests.note", diary.params("awaited", cost_class="heavy", held=True))
    ended, healthz, waited = asyncio.run(_beside(stack, job_id))
    assert waited.statuses == (200,)
    assert waited.seconds >= WAIT_SECONDS
    diary.open_gate()
    assert api.ended(job_id)["state"] == "succeeded"
    print(f"/healthz beside {EACH * len(HOSTILE)} of them: slowest {max(healthz) * 1e3:.0f} ms of {len(healthz)}")
    assert max(healthz) < ANSWERED_SECONDS
    for name, hostile in HOSTILE.items():
        said = Counter(one.statuses for one in ended[name])
        assert set(said) <= hostile.answers, (name, said)
        slowest = max(one.seconds for one in ended[name])
        assert slowest <= ARRIVAL_SECONDS + LATE_SECONDS, (name, slowest)


async def _beside(stack: Stack, job_id: str) -> tuple[dict[str, list[Ended]], list[float], Ended]:
    async with asyncio.timeout(100):
        waits = asyncio.create_task(_sends(stack.port, Hostile(_wait_for(stack, job_id))))
        tasks = {
            name: [asyncio.create_task(_sends(stack.port, hostile.with_key(stack.key))) for _ in range(EACH)]
            for name, hostile in HOSTILE.items()
        }
        everyone = asyncio.gather(*(task for some in tasks.values() for task in some))
        healthz = []
        while not everyone.done():
            healthz.append(await _healthz(stack.port))
            await asyncio.sleep(0.1)
        await everyone
        waited = await waits
    return {name: [task.result() for task in some] for name, some in tasks.items()}, healthz, waited


def _wait_for(stack: Stack, job_id: str) -> bytes:
    lines = (
        f"GET /api/v1/jobs/{job_id} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {stack.key}",
        f"Prefer: wait={WAIT_SECONDS}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode()


async def _sends(port: int, hostile: Hostile) -> Ended:
    """Until it is closed."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    dripping = asyncio.create_task(_drips(writer, hostile))
    try:
        told = await _all_of(reader)
    finally:
        dripping.cancel()
        writer.close()
    return Ended(time.monotonic() - began, told)


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """What came until it was closed, in order or not."""
    told = b""
    try:
        while more := await reader.read(65_536):
            told += more
    except ConnectionResetError:
        pass
    return told


async def _drips(writer: asyncio.StreamWriter, hostile: Hostile) -> None:
    try:
        writer.write(hostile.begins)
        while hostile.drops:
            await asyncio.sleep(DROP_SECONDS)
            writer.write(hostile.drops)
            await writer.drain()
    except ConnectionError:
        pass  # closed, as the reader sees


async def _healthz(port: int) -> float:
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    return time.monotonic() - began
