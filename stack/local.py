"""One whole stack on this machine, started and stopped as one thing: for bin/up, bin/demo and the acceptance tests.

    with Stack(data_dir) as stack:
        stack.url, stack.key, stack.database_url …

Start order: servers, database, programs. Stop order: programs, then servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType

from jobs.secret_files import kept_secret, write_private
from stack import addresses, embedded, leftovers, readiness
from stack.children import overlaid, run_module, stack_environment
from stack.data_dir import DataDir
from stack.failures import StackError
from stack.http_calls import Caller
from stack.ports import kept_ports, web_port
from stack.programs import SERVER_STOP_SECONDS, Places, Plan, app_programs, server_program
from stack.supervision import STOPPED_STATES, Program, Status, Supervisor, last_lines, log_file

SERVER_START_SECONDS = 60.0
PROVISION_SECONDS = 300.0
READY_SECONDS = 120.0
SERVERS = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL"}


class Stack:
    """The stack of one data directory.

    `environ` is laid over our own environment; an empty value takes a variable away. `without` leaves programs out
    (names as in `programs()`). `say` gets short progress sentences. `hurry` is asked while a stop gives jobs their
    grace; once it says yes, programs (not servers) are killed. Start a stack from the main thread (see stack.tether).
    """

    def __init__(
        self,
        data_dir: Path,
        environ: Mapping[str, str] | None = None,
        settings_module: str | None = None,
        without: Collection[str] = (),
        say: Callable[[str], None] = lambda sentence: None,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._data = DataDir(data_dir)
        self._given = overlaid(environ or {})
        self._without = frozenset(without)
        self._say = say
        self._hurry = hurry
        self._supervisor: Supervisor | None = None
        self._answered = True
        self._plan = Plan({}, 1, {})
        self._started: list[str] = []
        self.data_dir = self._data.path
        self.port = 0
        self.flower_port = 0
        self.environment = stack_environment(self._given, self.data_dir, settings_module)

    # --- start ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and wait until it is ready. Raises StackError, with everything stopped again."""
        self._data.open()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._check_given_servers()
        self._plan = self._read_plan()
        # Before ports are chosen: what a killed stack left may sit on them.
        self._data.clear_leftovers(self._server_pids, self._plan.longest_worker_stop_seconds, self._say)
        ports = self._choose_ports()
        servers = self._prepare_servers(ports)
        self._data.empty("metrics")
        self._data.empty("tmp")
        programs = self._programs_for(servers, ports)
        self._supervisor = Supervisor(
            self.data_dir, ports["supervisor"], kept_secret(self.data_dir / "supervisor-password"), programs
        )
        self._started = [program.name for program in programs]
        self._supervisor.start(self.environment)
        self._start_servers(servers)
        self._write_addresses()
        # Servers alone, as tests use them, need no tables of ours.
        if any(program.group == "app" for program in programs):
            self._provision()
            self._start_app(programs)
        self.wait_ready(READY_SECONDS)

    def _choose_ports(self) -> dict[str, int]:
        ports = kept_ports(self.data_dir, ["supervisor", "flower", *SERVERS])
        self.flower_port = ports["flower"]
        self.port, remark = web_port(self.data_dir, self._given.get("WEIGHBRIDGE_PORT"))
        self.environment["WEIGHBRIDGE_PORT"] = str(self.port)
        if remark:
            self._say(remark)
        return ports

    def _check_given_servers(self) -> None:
        for variable in SERVERS.values():
            if variable in self._given:
                addresses.must_answer(variable, self._given[variable])
        if "REDIS_URL" in self._given:
            addresses.redis_must_talk(self._given["REDIS_URL"])

    def _prepare_servers(self, ports: Mapping[str, int]) -> list[embedded.Server]:
        """The embedded servers that are wanted; those whose address was given are not."""
        wanted = [name for name, variable in SERVERS.items() if variable not in self._given]
        if not wanted:
            return []
        home = embedded.home_of_servers(self.data_dir, self._say)
        servers = []
        if "postgres" in wanted:
            servers.append(embedded.prepared_postgres(home, self.data_dir, ports["postgres"], self._say))
        if "valkey" in wanted:
            servers.append(embedded.prepared_valkey(home, self.data_dir, ports["valkey"]))
        for server in servers:
            self.environment[SERVERS[server.name]] = server.url
        return servers

    def _server_pids(self) -> list[int]:
        return embedded.server_pids(embedded.known_home(self.data_dir))

    def _read_plan(self) -> Plan:
        text = self._child("stack.plan", 60.0)
        values = json.loads(text.splitlines()[-1])
        return Plan(values["classes"], values["web_processes"], values["stop_grace_seconds"], values["arrival_seconds"])

    def _programs_for(self, servers: list[embedded.Server], ports: Mapping[str, int]) -> list[Program]:
        places = Places(self.data_dir, self.port, ports["flower"], kept_secret(self.data_dir / "flower-password"))
        app = [program for program in app_programs(self._plan, places) if program.name not in self._without]
        return [server_program(server, self.data_dir) for server in servers] + app

    def _start_servers(self, servers: list[embedded.Server]) -> None:
        for server in servers:
            self._running().start_program(server.name)
        troubles = {"postgres": addresses.postgres_trouble, "valkey": addresses.redis_trouble}
        for server in servers:
            self._wait_for_server(server, troubles[server.name])

    def _wait_for_server(self, server: embedded.Server, trouble: Callable[[str], str | None]) -> None:
        seen = readiness.StartsSeen()

        def found() -> str | None:
            self._refuse_hopeless(seen)
            return trouble(server.url)

        last = addresses.wait_until_well(found, SERVER_START_SECONDS)
        if last is not None:
            raise self._failure(f"The embedded {server.name} does not answer: {last}", server.name)

    def _write_addresses(self) -> None:
        """So that manage.py finds a running stack's servers."""
        values = {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}
        write_private(self.data_dir / "addresses.json", json.dumps(values) + "\n")

    def _provision(self) -> None:
        self._say("Bringing the database up to date …")
        self._child("stack.provision", PROVISION_SECONDS)

    def _child(self, module: str, timeout_seconds: float) -> str:
        return run_module(module, self.environment, self.log(module.rpartition(".")[2]), timeout_seconds, self._say)

    def _start_app(self, programs: list[Program]) -> None:
        self._say("Starting the web, workers, beat and Flower …")
        for program in programs:
            if program.group == "app":
                self._running().start_program(program.name)

    def wait_ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Wait until every started program is up and every class has its slots. Raises StackError naming what is missing."""
        seen = readiness.StartsSeen()
        until = time.monotonic() + timeout_seconds
        while (missing := self._first_missing(seen)) is not None:
            if time.monotonic() > until:
                raise self._failure(f"Not ready after {timeout_seconds:.0f} s: {missing.what}", missing.program)
            time.sleep(0.1)

    def _first_missing(self, seen: readiness.StartsSeen) -> readiness.Missing | None:
        statuses = self._refuse_hopeless(seen)
        classes = {name: count for name, count in self._plan.classes.items() if f"worker-{name}" in self._started}
        caller = Caller(self.port, self.key) if "web" in self._started else None
        return readiness.first_missing(statuses, self._started, classes, caller)

    def _refuse_hopeless(self, seen: readiness.StartsSeen) -> Mapping[str, Status]:
        statuses = self._statuses()
        name = seen.hopeless(statuses)
        if name:
            raise self._failure(f"{name} keeps ending", name)
        return statuses

    def _failure(self, what: str, program: str) -> StackError:
        log = self.log(program)
        return StackError(f"{what}; its log {log} ends:\n{last_lines(log)}")

    # --- while it runs --------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        """The demo client's API key."""
        return (self.data_dir / "demo-key").read_text().strip()

    @property
    def database_url(self) -> str:
        return self.environment["DATABASE_URL"]

    @property
    def redis_url(self) -> str:
        return self.environment["REDIS_URL"]

    def programs(self) -> dict[str, str]:
        """Each program's state in supervisord's words: RUNNING, STOPPED, …"""
        return {name: status.state for name, status in self._statuses().items()}

    def pid(self, program: str) -> int:
        """The main pid of a program. Raises StackError when it is not running."""
        pid = self._status(program).pid
        if not pid:
            raise StackError(f"{program} is not running.")
        return pid

    def signal(self, program: str, number: int) -> None:
        """Send a signal to a program's main pid."""
        os.kill(self.pid(program), number)

    def stop_program(self, program: str) -> None:
        """Stop one program in order and wait until it has ended."""
        self._status(program)
        self._running().stop_program(program)
        self._wait_for_state(program, STOPPED_STATES, self._stop_bound())

    def start_program(self, program: str) -> None:
        """Start one program and wait until it is up (not until its slots are registered: see wait_ready)."""
        self._status(program)
        self._running().start_program(program)
        self._wait_for_state(program, frozenset({"RUNNING"}), 30.0)

    def restart_program(self, program: str) -> None:
        self.stop_program(program)
        self.start_program(program)

    def log(self, program: str) -> Path:
        return log_file(self.data_dir, program)

    def watch(self) -> None:
        """One look at a running stack, to be repeated: a program that was given up is started again.

        Raises StackError when the process manager itself has gone. While it lives, a question that it leaves unanswered
        (it waits for a slow disk, say) ends nothing: the programs run on, and the next look asks again.
        """
        if not self._running().lives():
            raise StackError(f"The process manager has ended; its log is {self.data_dir / 'logs/supervisord.log'}.")
        try:
            self._start_given_up()
        except StackError as error:
            # Said once, not at each look.
            if self._answered:
                self._say(f"{error} It lives, so it is asked again.")
            self._answered = False
        else:
            self._answered = True

    def _start_given_up(self) -> None:
        for name, status in self._statuses().items():
            if status.state == "FATAL":
                self._say(f"{name} keeps ending and is started again; its log is {self.log(name)}.")
                self._running().start_program(name)

    def _status(self, program: str) -> Status:
        statuses = self._statuses()
        if program not in statuses:
            raise StackError(f"This stack has no program {program!r}; it has {', '.join(statuses)}.")
        return statuses[program]

    def _wait_for_state(self, program: str, wanted: Collection[str], timeout_seconds: float) -> None:
        until = time.monotonic() + timeout_seconds
        while (state := self._status(program).state) not in wanted:
            if time.monotonic() > until:
                raise self._failure(f"{program} is {state.lower()} after {timeout_seconds:.0f} s", program)
            time.sleep(0.05)

    def _statuses(self) -> Mapping[str, Status]:
        return self._running().statuses()

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise StackError("The stack is not running.")
        return self._supervisor

    # --- stop -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop everything in order; returns when no process is left. May be called again, and on a stack half started."""
        if self._supervisor is not None:
            longest = max(self._plan.stop_grace_seconds.values(), default=0.0)
            self._say(f"Stopping; running jobs have up to {longest:g} s, a second Ctrl-C ends them now …")
            with contextlib.suppress(StackError):
                self._stop_app()
            self._supervisor.shut_down(SERVER_STOP_SECONDS + 10)
            self._end_leftovers()
            with contextlib.suppress(FileNotFoundError):
                (self.data_dir / "addresses.json").unlink()
            self._supervisor = None
            self._say("Stopped.")
        self._data.close()

    def erase(self) -> None:
        """Stop, and remove all that this stack ever wrote: its data directory and a servers' home outside it."""
        self.stop()
        embedded.forget(self.data_dir)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def _stop_app(self) -> None:
        app = {name for name, status in self._statuses().items() if status.group == "app"}
        for name in app:
            self._running().stop_program(name)
        until = time.monotonic() + self._stop_bound()
        while time.monotonic() < until:
            alive = [
                status
                for status in self._statuses().values()
                if status.name in app and status.state not in STOPPED_STATES
            ]
            if not alive:
                return
            if self._hurry():
                self._kill(alive)
            time.sleep(0.05)

    def _stop_bound(self) -> float:
        """By then supervisord has killed whatever did not end by itself."""
        return max(self._plan.longest_worker_stop_seconds, SERVER_STOP_SECONDS) + 10.0

    def _kill(self, alive: list[Status]) -> None:
        for status in alive:
            if status.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(status.pid, signal.SIGKILL)

    def _end_leftovers(self) -> None:
        """What outlived its program (or its process manager): first the rest, then the servers."""

        def rest() -> list[int]:
            servers = self._server_pids()
            return [pid for pid in leftovers.marked(self.data_dir) if pid not in servers]

        leftovers.end(rest, signal.SIGTERM, 2.0)
        leftovers.end(self._server_pids, signal.SIGINT, 30.0)

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
