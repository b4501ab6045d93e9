"""Which programs a stack runs: the servers, the web, a worker per cost class, sweeps, beat and Flower."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stack.embedded import Server
from stack.leftovers import MARK
from stack.supervision import Program

ROOT = Path(__file__).resolve().parent.parent
# A keeper may take 5 s beyond the grace to end what did not finish; 5 more for it to go.
BEYOND_GRACE_SECONDS = 10
# Connections at once to one web process, idle ones too; its own bound on callers who wait is lower: it is to answer them, not the server to keep them out.
WEB_REQUESTS = 4096
# Requests are short; a web process that has not answered its last one by then is cut off.
WEB_STOP_SECONDS = 10
# A fast shutdown of PostgreSQL ends with a checkpoint, which a slow disk may draw out.
SERVER_STOP_SECONDS = 60


@dataclass(frozen=True)
class Plan:
    """What the settings ask for: worker processes per class, web processes, the grace at stop of each class and of the
    sweeps (`control`) in seconds, and how many a request's head may take to arrive."""

    classes: Mapping[str, int]
    web_processes: int
    stop_grace_seconds: Mapping[str, float]
    arrival_seconds: int = 30

    def worker_stop_seconds(self, name: str) -> int:
        return math.ceil(self.stop_grace_seconds[name]) + BEYOND_GRACE_SECONDS

    @property
    def longest_worker_stop_seconds(self) -> int:
        return max((self.worker_stop_seconds(name) for name in self.stop_grace_seconds), default=0)


@dataclass(frozen=True)
class Places:
    """Where things listen and lie: what the command lines need."""

    data_dir: Path
    web_port: int
    flower_port: int
    flower_password: str


def server_program(server: Server, data_dir: Path) -> Program:
    """An embedded server gets an environment of its own: none of ours, which may hold secrets, but the mark."""
    env = shutil.which("env") or "/usr/bin/env"
    clean = [env, "-i", "LC_ALL=C", f"{MARK}={data_dir}"]
    return Program(
        server.name, "servers", [*clean, *server.command], SERVER_STOP_SECONDS, server.stop_signal, server.user
    )


def app_programs(plan: Plan, places: Places) -> list[Program]:
    """Everything but the servers, in the order in which it is started."""
    workers = [*plan.classes, "control"]
    return [
        _app("web", _web_command(plan, places), WEB_STOP_SECONDS + 5),
        *(_app(f"worker-{name}", _worker_command(name), plan.worker_stop_seconds(name)) for name in workers),
        _app("beat", _beat_command(), 10),
        _flower(places),
    ]


def _app(
    name: str, command: list[str], stop_wait_seconds: int, environment: Mapping[str, str] | None = None
) -> Program:
    return Program(name, "app", command, stop_wait_seconds, environment=environment or {}, directory=ROOT)


def _web_command(plan: Plan, places: Places) -> list[str]:
    options = {
        "--interface": "asgi",
        # By itself it tells HTTP/2 from HTTP/1 by the first bytes, and waits for them without end: a silent connection would keep its place for ever.
        "--http": "1",
        "--http1-header-read-timeout": f"{plan.arrival_seconds}000",
        "--host": "127.0.0.1",
        "--port": places.web_port,
        "--workers": plan.web_processes,
        "--backpressure": WEB_REQUESTS,
        "--workers-kill-timeout": WEB_STOP_SECONDS,
        "--static-path-route": "/static",
        "--static-path-mount": places.data_dir / "static",
    }
    flat = [str(part) for pair in options.items() for part in pair]
    # Without it one lost web process would take the others down with it.
    return [*_python("granian"), *flat, "--respawn-failed-workers", "project.asgi:application"]


def _worker_command(name: str) -> list[str]:
    return [sys.executable, "-P", str(ROOT / "manage.py"), "worker", name]


def _beat_command() -> list[str]:
    return [*_python("workers.celery_process"), "beat", "-S", "celery.beat:Scheduler", "--pidfile="]


def _flower(places: Places) -> Program:
    # The password goes by the environment: argument lists are for everybody to read.
    environment = {"FLOWER_BASIC_AUTH": f"admin:{places.flower_password}"}
    command = [*_python("celery"), "-A", "project", "flower", "--address=127.0.0.1", f"--port={places.flower_port}"]
    return _app("flower", command, 10, environment)


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]
