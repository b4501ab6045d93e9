"""An event loop whose look-ups of names can be ended. No Django.

They are made in a process of its own (20 ms), because a thread inside getaddrinfo cannot be ended.
"""

import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import time
from typing import Any

NAMES_SECONDS, MOST_NAMES = 5.0, 256  # how long addresses are used again, and how many are kept

# Reads five arguments, writes the addresses or the error as JSON.
RESOLVER = """
import json, socket, sys
host, port, *numbers = sys.argv[1:]
try:
    print(json.dumps([None, socket.getaddrinfo(host, port, *map(int, numbers))]))
except socket.gaierror as error:
    print(json.dumps([error.args, []]))
"""


_known: dict[tuple[str, ...], tuple[float, list[Any]]] = {}


class Loop(asyncio.SelectorEventLoop):
    """A loop without helper threads: whatever waits in it can be cancelled."""

    async def getaddrinfo(self, host: Any, port: Any, **numbers: int) -> Any:
        """As socket.getaddrinfo; the addresses found are used again for NAMES_SECONDS."""
        chosen = [str(int(numbers.get(name, 0))) for name in ("family", "type", "proto", "flags")]
        question = (host.decode() if isinstance(host, bytes) else str(host), str(port), *chosen)
        asked_at, found = _known.get(question, (-math.inf, []))
        if time.monotonic() - asked_at > NAMES_SECONDS:
            found = await self._ask(question)
            if len(_known) >= MOST_NAMES:
                _known.clear()
            _known[question] = time.monotonic(), found
        return found

    async def _ask(self, question: tuple[str, ...]) -> list[Any]:
        command = [sys.executable, "-I", "-S", "-c", RESOLVER, *question]
        nowhere = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=nowhere, stdout=subprocess.PIPE, stderr=nowhere) as process:
            assert process.stdout is not None
            try:
                answer = await self._read_all(process.stdout.fileno())
            finally:
                process.kill()  # or leaving the block would wait for it
        return _addresses(answer)

    async def _read_all(self, pipe: int) -> bytes:
        answer = b""
        while True:
            readable = self.create_future()
            self.add_reader(pipe, _told, readable)
            try:
                await readable
            finally:
                self.remove_reader(pipe)
            part = os.read(pipe, 65_536)
            if not part:
                return answer
            answer += part


def _told(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _addresses(answer: bytes) -> list[Any]:
    try:
        error, found = json.loads(answer)
    except ValueError:
        raise socket.gaierror(socket.EAI_SYSTEM, "the resolver process ended without an answer") from None
    if error is not None:
        raise socket.gaierror(*error)
    return [(socket.AddressFamily(f), socket.SocketKind(t), p, name, tuple(at)) for f, t, p, name, at in found]
