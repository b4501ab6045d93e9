"""The ways to serve Django that are compared: each a web server of its own, on one stack, with the same settings.

They run side by side, and those that are not asked rest, so rounds can take turns.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.ground import wait_until
from bench.load import Connection, Unexpected, request
from bench.processes import WebProcesses
from stack.local import Stack
from stack.ports import free_port
from stack.programs import ROOT

HEALTHZ = request("GET", "/healthz")
START_SECONDS, STOP_SECONDS = 60.0, 15.0
THREADS = 4  # in Django at once in a process, as the bridge's (project/serving.py)
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # looked up here: between fork and exec nothing may be


@dataclass(frozen=True)
class Way:
    name: str
    port: int
    processes: WebProcesses


OURS = "our ASGI application"
# Django's ASGI handler knows no lifespan. It takes a thread of its own for each request, so there is no number to set.
OTHERS = {
    "granian's WSGI interface": [
        "--interface",
        "wsgi",
        "--blocking-threads",
        str(THREADS),
        "bench.plain_wsgi:application",
    ],
    "Django's ASGI handler": ["--interface", "asginl", "bench.plain_asgi:application"],
}


@contextlib.contextmanager
def all_ways(stack: Stack, web_processes: int, folder: Path) -> Iterator[list[Way]]:
    """Ours, which is the stack's own web, first. `folder` is for what the others write."""
    with contextlib.ExitStack() as running:
        started = [
            (name, *running.enter_context(_served(stack, arguments, web_processes, folder)))
            for name, arguments in OTHERS.items()
        ]
        for name, port, main in started:
            wait_until(partial(_answers, port, main), f"{name} does not answer", START_SECONDS)
        others = [Way(name, port, WebProcesses(main.pid)) for name, port, main in started]
        yield [Way(OURS, stack.port, WebProcesses(stack.pid("web"))), *others]


@contextlib.contextmanager
def _served(
    stack: Stack, arguments: list[str], web_processes: int, folder: Path
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Its port and its main process."""
    port = free_port()
    main = _started(stack, port, web_processes, arguments, folder)
    try:
        yield port, main
    finally:
        _end(main)


def _started(
    stack: Stack, port: int, web_processes: int, arguments: list[str], folder: Path
) -> subprocess.Popen[bytes]:
    """As stack/programs.py starts the stack's own, but for the interface."""
    metrics = folder / f"metrics-{port}"  # what it counts is not the stack's
    metrics.mkdir()
    options = [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--workers",
        str(web_processes),
        "--backpressure",
        "4096",
        "--http",
        "1",
    ]
    with (folder / f"web-{port}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "granian", *options, *arguments],
            cwd=ROOT,
            env={**stack.environment, "PROMETHEUS_MULTIPROC_DIR": str(metrics)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_us,
        )


def _die_with_us() -> None:
    """A benchmark that is killed leaves no server; its processes go with their main one."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _answers(port: int, main: subprocess.Popen[bytes]) -> bool:
    if main.poll() is not None:
        raise Unexpected(f"A web server ended as it started (exit code {main.returncode}).")
    try:
        with Connection(port) as connection:
            return connection.ask(HEALTHZ).status == 200
    except OSError:
        return False


def _end(main: subprocess.Popen[bytes]) -> None:
    main.terminate()
    try:
        main.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        main.kill()
        main.wait()
