"""The process manager: supervisord's configuration, its own process, and questions and orders to it (XML-RPC).

supervisord runs in a session of its own, so a Ctrl-C at the terminal reaches neither it nor its children. It signals
only each program's main pid, restarts what dies, and waits longer than the grace before it kills (P23).
"""

from __future__ import annotations

import http.client
import os
import shlex
import signal
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from jobs.secret_files import write_private
from stack.failures import StackError

GROUPS = ("servers", "app")
STOPPED_STATES = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
# A log is turned at 10 MiB and two older ones are kept.
LOG_BYTES, OLDER_LOGS = 10 * 1024 * 1024, 2
# Failed starts in a row, a second longer apart each time, before supervisord gives a program up: 55 s in all, so that
# programs outlast a restart of the database.
START_RETRIES = 10
RPC_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Program:
    """One supervised program. `stop_wait_seconds` is the time from its stop signal to SIGKILL."""

    name: str
    group: str
    command: Sequence[str]
    stop_wait_seconds: int
    stop_signal: str = "TERM"
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path("/")


@dataclass(frozen=True)
class Status:
    """What supervisord knows of a program: its state, its pid (0: none), when it was last started (epoch seconds)."""

    name: str
    group: str
    state: str
    pid: int
    started: int


def configuration(port: int, password: str, programs: Sequence[Program]) -> str:
    """supervisord's configuration file as text. Groups stop in the reverse order of their priority: app, then servers."""
    sections = [_OWN_SECTION, _http_section(port, password), _RPC_SECTION]
    for priority, group in enumerate(GROUPS, start=1):
        members = [program.name for program in programs if program.group == group]
        if members:
            sections.append(f"[group:{group}]\nprograms={','.join(members)}\npriority={priority}\n")
    sections += [_program_section(program) for program in programs]
    return "\n".join(sections)


_RPC_SECTION = """\
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""


# Paths are relative: supervisord runs in the data directory, and expands "%" in some options once, in others twice.
_OWN_SECTION = f"""\
[supervisord]
logfile=logs/supervisord.log
logfile_maxbytes={LOG_BYTES}
logfile_backups={OLDER_LOGS}
pidfile=supervisord.pid
childlogdir=logs
nodaemon=true
silent=true
"""


def _http_section(port: int, password: str) -> str:
    return f"[inet_http_server]\nport=127.0.0.1:{port}\nusername=stack\npassword={password}\n"


def _program_section(program: Program) -> str:
    lines = [
        f"[program:{program.name}]",
        f"command={_plain(shlex.join(program.command))}",
        f"directory={_plain(program.directory)}",
        "autostart=false",
        "autorestart=true",
        "startsecs=1",
        f"startretries={START_RETRIES}",
        f"stopsignal={program.stop_signal}",
        f"stopwaitsecs={program.stop_wait_seconds}",
        "stopasgroup=false",
        "killasgroup=false",
        "redirect_stderr=true",
        f"stdout_logfile=logs/{program.name}.log",
        f"stdout_logfile_maxbytes={LOG_BYTES}",
        f"stdout_logfile_backups={OLDER_LOGS}",
    ]
    if program.user:
        lines.append(f"user={program.user}")
    if program.environment:
        pairs = (f'{name}="{value}"' for name, value in program.environment.items())
        lines.append(f"environment={_plain(','.join(pairs))}")
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    """Text in which supervisord expands nothing."""
    return str(value).replace("%", "%%")


def log_file(data_dir: Path, program: str) -> Path:
    return data_dir / "logs" / f"{program}.log"


def last_lines(file: Path, count: int = 15) -> str:
    """The end of a log, indented, for a message; empty when there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - 16_384))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-count:])


class Supervisor:
    """One running supervisord and the way to talk to it. Raises StackError when it refuses or does not answer."""

    def __init__(self, data_dir: Path, port: int, password: str, programs: Sequence[Program]) -> None:
        self._data_dir = data_dir
        self._port = port
        self._password = password
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str], timeout_seconds: float = 20.0) -> None:
        """Start supervisord, with no program yet, and wait until it answers."""
        file = self._data_dir / "supervisor.conf"
        write_private(file, configuration(self._port, self._password, self._programs))
        output = self._data_dir / "logs/supervisord.out"
        with output.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stack.tether", str(os.getpid()), str(file)],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._data_dir,
            )
        self._wait_for_answer(output, timeout_seconds)

    def _wait_for_answer(self, output: Path, timeout_seconds: float) -> None:
        until = time.monotonic() + timeout_seconds
        while not self.answers():
            if not self.lives() or time.monotonic() > until:
                raise StackError(
                    f"The process manager did not start; its output is {output} and ends:\n{last_lines(output)}"
                )
            time.sleep(0.05)

    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        try:
            self._call("supervisor.getState")
        except (StackError, xmlrpc.client.Fault):
            return False
        return True

    def statuses(self) -> dict[str, Status]:
        """Every program by name."""
        try:
            rows = self._call("supervisor.getAllProcessInfo")
        except xmlrpc.client.Fault as fault:
            raise StackError(f"The process manager tells nothing of its programs: {fault.faultString}.") from fault
        return {
            row["name"]: Status(row["name"], row["group"], row["statename"], row["pid"], row["start"]) for row in rows
        }

    def start_program(self, name: str) -> None:
        """Order a start; does not wait for it. A program that is up or on its way is left alone."""
        self._order("supervisor.startProcess", name, "ALREADY_STARTED")

    def stop_program(self, name: str) -> None:
        """Order a stop; does not wait for it."""
        self._order("supervisor.stopProcess", name, "NOT_RUNNING")

    def _order(self, method: str, name: str, harmless: str) -> None:
        group = next(program.group for program in self._programs if program.name == name)
        try:
            self._call(method, f"{group}:{name}", False)
        except xmlrpc.client.Fault as fault:
            if not fault.faultString.startswith(harmless):
                raise StackError(f"The process manager refused {method} for {name}: {fault.faultString}.") from fault

    def shut_down(self, timeout_seconds: float) -> None:
        """End supervisord, which stops what still runs, app before servers; killed when it takes too long."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _call(self, method: str, *arguments: object) -> Any:
        url = f"http://stack:{self._password}@127.0.0.1:{self._port}/RPC2"
        try:
            with xmlrpc.client.ServerProxy(url, transport=_BoundedTransport()) as proxy:
                return getattr(proxy, method)(*arguments)
        except xmlrpc.client.ProtocolError as error:
            # Its own text holds the URL, with the password.
            raise StackError(f"The process manager does not answer: {error.errcode} {error.errmsg}.") from None
        except (OSError, http.client.HTTPException, xmlrpc.client.ResponseError, ExpatError) as error:
            raise StackError(f"The process manager does not answer: {str(error) or type(error).__name__}.") from error


class _BoundedTransport(xmlrpc.client.Transport):
    """The standard transport, with a time-out on every read."""

    def make_connection(self, host: object) -> http.client.HTTPConnection:
        connection = super().make_connection(host)  # type: ignore[arg-type]
        connection.timeout = RPC_TIMEOUT_SECONDS
        return connection
