"""Connections that send slowly, or nothing: each has its time, and while they have it nobody else waits for them.

What it takes to bound them all is in docs/decisions/0009-serving.md. Callers whose bodies come slowly, but come, are in test_serving.py.
"""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from stack.local import Stack
from tests.acceptance.conftest import ARRIVAL_SECONDS
from tests.api_client import Api

EACH = 60  # connections of each kind
# The machine may be busy; and a drop that comes at the last moment is not lost.
LATE_SECONDS = 6.0
DROP_SECONDS = 0.5
ANSWERED_SECONDS = 2.0  # an answer needs milliseconds

HEAD = b"GET /api/v1/classes HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Hostile:
    """What a connection begins with, and one byte that it sends again and again after that."""

    begins: bytes
    drops: bytes = b""
    statuses: tuple[int, ...] = ()
    """Of the answers that it gets before it is closed."""


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
    stack: Stack, api: Api
) -> None:
    ended, healthz = asyncio.run(_beside(stack))
    print(f"/healthz beside {EACH * len(HOSTILE)} of them: slowest {max(healthz) * 1e3:.0f} ms of {len(healthz)}")
    assert max(healthz) < ANSWERED_SECONDS
    for name, hostile in HOSTILE.items():
        said = Counter(one.statuses for one in ended[name])
        assert set(said) <= ({hostile.statuses} if len(hostile.statuses) < 2 else {(s,) for s in hostile.statuses}), (
            name,
            said,
        )
        slowest = max(one.seconds for one in ended[name])
        assert slowest <= ARRIVAL_SECONDS + LATE_SECONDS, (name, slowest)
    assert json.loads(api.http.get("/jobs").content)["jobs"] is not None


async def _beside(stack: Stack) -> tuple[dict[str, list[Ended]], list[float]]:
    async with asyncio.timeout(100):
        tasks = {
            name: [asyncio.create_task(_sends(stack.port, hostile)) for _ in range(EACH)]
            for name, hostile in HOSTILE.items()
        }
        everyone = asyncio.gather(*(task for some in tasks.values() for task in some))
        healthz = []
        while not everyone.done():
            healthz.append(await _healthz(stack.port))
            await asyncio.sleep(0.1)
        await everyone
    return {name: [task.result() for task in some] for name, some in tasks.items()}, healthz


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
