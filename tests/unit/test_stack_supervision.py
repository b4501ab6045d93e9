"""The process manager: signals main pids only, restarts what dies, waits longer than the grace (P23)."""

import configparser
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import supervision
from stack.children import stack_environment
from stack.failures import StackError
from stack.local import Stack
from stack.ports import free_port
from stack.programs import Places, Plan, app_programs
from stack.readiness import StartsSeen
from stack.supervision import STOPPED_STATES, Program, Supervisor, configuration
from tests.waiting import eventually

GRACES = {"light": 2.5, "heavy": 120.0, "bulk": 0.1, "control": 30.0}
PLAN = Plan({"light": 2, "heavy": 1, "bulk": 1}, web_processes=3, stop_grace_seconds=GRACES)


def _parsed(programs: list[Program]) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(configuration(1234, "secret", programs))
    return parser


def _app() -> list[Program]:
    return app_programs(PLAN, Places(Path("/data"), 8000, 5555, "pass"))


def test_every_declared_class_gets_a_worker() -> None:
    names = [program.name for program in _app()]
    assert names == ["web", "worker-light", "worker-heavy", "worker-bulk", "worker-control", "beat", "flower"]


def test_each_worker_gets_its_own_class_s_grace_and_10_s_more_before_it_is_killed() -> None:
    parser = _parsed(_app())
    waits = {name: int(parser[f"program:worker-{name}"]["stopwaitsecs"]) for name in GRACES}
    assert waits == {"light": 13, "heavy": 130, "bulk": 11, "control": 40}
    assert PLAN.longest_worker_stop_seconds == 130


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


def test_an_unanswered_question_does_not_end_a_stack_whose_process_manager_lives(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    stack = Stack(tmp_path, say=said.append)
    monkeypatch.setattr(stack, "_supervisor", supervisor)
    monkeypatch.setattr(supervision, "RPC_TIMEOUT_SECONDS", 0.2)
    assert supervisor._process is not None
    supervisor._process.send_signal(signal.SIGSTOP)
    stack.watch()
    stack.watch()
    assert said == ["The process manager does not answer: timed out. It lives, so it is asked again."]
    supervisor._process.send_signal(signal.SIGCONT)
    eventually(supervisor.answers)
    stack.watch()
    supervisor.shut_down(20)
    with pytest.raises(StackError, match="The process manager has ended"):
        stack.watch()
    assert len(said) == 1


def test_a_wrong_password_is_told_without_it(supervisor: Supervisor) -> None:
    other = Supervisor(Path("/nowhere"), supervisor._port, "hidden", [])
    with pytest.raises(StackError) as failure:
        other.statuses()
    assert "401" in str(failure.value)
    assert "hidden" not in str(failure.value)


def test_a_program_that_keeps_ending_is_found_out(supervisor: Supervisor) -> None:
    seen = StartsSeen()
    supervisor.start_program("hopeless")
    eventually(lambda: seen.hopeless(supervisor.statuses()) == "hopeless", within_seconds=30)


def test_programs_and_manager_are_out_of_our_session(supervisor: Supervisor) -> None:
    """So a Ctrl-C at the terminal, which goes to the whole foreground group, does not reach them."""
    supervisor.start_program("lasting")
    eventually(lambda: supervisor.statuses()["lasting"].pid != 0)
    assert os.getsid(supervisor.statuses()["lasting"].pid) != os.getsid(0)
