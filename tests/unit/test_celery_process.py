"""Celery's worker and beat, started without the rest of Celery's command line."""

import subprocess
import sys

import pytest

from stack.programs import ROOT

OF_OTHER_COMMANDS = ("celery.bin.celery", "click_repl", "prompt_toolkit", "flower", "tornado")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,  # the exit code is what is asked
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_nothing_of_other_commands_is_loaded() -> None:
    code = (
        f"import sys, workers.celery_process; print([name for name in {OF_OTHER_COMMANDS} if name in sys.modules],"
        " sorted(workers.celery_process.COMMANDS))"
    )
    ran = _python("-c", code)
    assert ran.stdout == "[] ['beat', 'worker']\n", ran.stderr


@pytest.mark.parametrize("command", ["worker", "beat"])
def test_celerys_own_options_are_read_and_others_refused(command: str) -> None:
    ran = _python("-m", "workers.celery_process", command, "--nonsense")
    assert ran.returncode == 2
    assert f"Usage: celery {command} [OPTIONS]" in ran.stderr
    assert "No such option" in ran.stderr


BEAT = """
import sys
from celery.apps.beat import Beat
from workers.celery_process import main
Beat.start_scheduler = lambda beat: print([name for name in ("workers.tasks", "jobs.api.urls") if name in sys.modules])
main("beat", "--pidfile=")
"""


def test_beat_loads_no_api() -> None:
    ran = _python("-c", BEAT)
    assert ran.stdout.endswith("['workers.tasks']\n"), ran.stdout + ran.stderr
