"""The process manager: signals main pids only, restarts what dies, waits longer than the grace (P23)."""

import configparser
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.children import stack_environment
from stack.ports import free_port
from stack.programs import Places, Plan, app_programs
from stack.readiness import StartsSeen
from stack.supervision import STOPPED_STATES, Program, Supervisor, configuration
from tests.waiting import eventually

PLAN = Plan({"light": 2, "heavy": 1, "bulk": 1}, web_processes=3, stop_grace_seconds=2.5)


def _parsed(programs: list[Program]) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(configuration(1234, "secret", programs))
    return parser


def _app() -> list[Program]:
    return app_programs(PLAN, Places(Path("/data"), 8000, 5555, "pass"))


def test_every_declared_class_gets_a_worker() -> None:
    names = [program.name for program in _app()]
    assert names == ["web", "worker-light", "worker-heavy", "worker-bulk", "worker-control", "beat", "flower"]


def test_workers_get_longer_than_the_grace_before_they_are_killed() -> None:
    waits = [program.stop_wait_seconds for program in _app() if program.name.startswith("worker-")]
    assert all(wait >= PLAN.stop_grace_seconds + 10 for wait in waits)


def test_only_main_pids_are_signalled_and_what_dies_is_restarted() -> None:
    parser = _parsed(_app())
    for section in parser.sections():
        if section.startswith("program:"):
            assert parser[section]["stopasgroup"] == parser[section]["killasgroup"] == "false"
            assert parser[section]["autorestart"] == "true"


def test_the_servers_group_stops_after_the_app() -> None:
    server = Program("postgres", "servers", ["true"], 60)
    parser = _parsed([server, *_app()])
    assert int(parser["group:servers"]["priority"]) < int(parser["group:app"]["priority"])


def test_no_password_is_in_a_command_line() -> None:
    assert not any("pass" in argument for program in _app() for argument in program.command)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """A real one in a folder with a name that would need quoting, with a lasting program and one that cannot stay."""
    data_dir = tmp_path / "per 100%cent 'quoted'"
    (data_dir / "logs").mkdir(parents=True)
    programs = [
        Program("lasting", "app", [sys.executable, "-c", "import signal; signal.pause()"], 5, environment={"A": "b"}),
        Program("hopeless", "app", ["/bin/sh", "-c", "echo 50% of nothing; exit 3"], 5),
    ]
    running = Supervisor(data_dir, free_port(), "secret", programs)
    running.start(stack_environment(os.environ, data_dir, None))
    yield running
    running.shut_down(20)
    assert not running.lives()


def test_a_program_that_is_killed_comes_back_under_another_pid(supervisor: Supervisor) -> None:
    supervisor.start_program("lasting")
    eventually(lambda: supervisor.statuses()["lasting"].state == "RUNNING")
    before = supervisor.statuses()["lasting"].pid
    os.kill(before, signal.SIGKILL)
    eventually(lambda: supervisor.statuses()["lasting"].pid not in (0, before))


def test_a_stopped_program_stays_stopped_and_orders_may_be_repeated(supervisor: Supervisor) -> None:
    supervisor.start_program("lasting")
    supervisor.start_program("lasting")
    supervisor.stop_program("lasting")
    eventually(lambda: supervisor.statuses()["lasting"].state in STOPPED_STATES)
    supervisor.stop_program("lasting")
    assert supervisor.statuses()["lasting"].pid == 0


def test_a_program_that_keeps_ending_is_found_out(supervisor: Supervisor) -> None:
    seen = StartsSeen()
    supervisor.start_program("hopeless")
    eventually(lambda: seen.hopeless(supervisor.statuses()) == "hopeless", within_seconds=30)


def test_programs_and_manager_are_out_of_our_session(supervisor: Supervisor) -> None:
    """So a Ctrl-C at the terminal, which goes to the whole foreground group, does not reach them."""
    supervisor.start_program("lasting")
    eventually(lambda: supervisor.statuses()["lasting"].pid != 0)
    assert os.getsid(supervisor.statuses()["lasting"].pid) != os.getsid(0)
