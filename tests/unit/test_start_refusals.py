"""A wrong setting stops every command with one sentence on stderr, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def _manage(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return _python("manage.py", *arguments, **environ)


def _python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,  # the exit code is what is asked
        cwd=CHECKOUT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )


def _is_one_sentence(ran: subprocess.CompletedProcess[str]) -> bool:
    return ran.returncode not in (0, None) and "Traceback" not in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_right_settings_pass() -> None:
    ran = _manage("check", WEIGHBRIDGE_HEAVY_PROCESSES="1", WEIGHBRIDGE_JOB_MODULES="tests.history.job_types")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "WEIGHBRIDGE_HEAVY_PROCESSES",
            "0",
            "WEIGHBRIDGE_HEAVY_PROCESSES is '0', but must be a whole number from 1 to 256.",
        ),
        (
            "WEIGHBRIDGE_HEAVY_PROCESES",
            "2",
            "The name of a variable is 'WEIGHBRIDGE_HEAVY_PROCESES', but must be that of a class's setting, such as "
            "WEIGHBRIDGE_HEAVY_PROCESSES.",
        ),
        ("WEIGHBRIDGE_LEASE_SECONDS", "soon", "WEIGHBRIDGE_LEASE_SECONDS is 'soon'"),
        ("DATABASE_URL", "mysql://u:hidden@db/w", "DATABASE_URL is 'mysql://…'"),
        ("WEIGHBRIDGE_JOB_MODULES", "nowhere.at_all", "WEIGHBRIDGE_JOB_MODULES is 'nowhere.at_all'"),
        ("WEIGHBRIDGE_LOG_LEVEL", "loud", "WEIGHBRIDGE_LOG_LEVEL is 'loud', but must be one of DEBUG,"),
    ],
)
def test_a_wrong_setting_stops_the_start_in_one_sentence(variable: str, value: str, says: str) -> None:
    ran = _manage("check", **{variable: value})
    assert _is_one_sentence(ran), ran.stderr
    assert ran.stderr.startswith(says)
    assert "hidden" not in ran.stderr


def test_a_job_type_that_cannot_work_stops_the_start_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "team_lite.py").write_text(
        "from workers import job\n@job('team.lite', cost_class='lite')\ndef run(ctx): ...\n"
    )
    ran = _manage("check", WEIGHBRIDGE_JOB_MODULES="team_lite", PYTHONPATH=str(tmp_path))
    assert _is_one_sentence(ran), ran.stderr
    assert ran.stderr.strip() == "Job type 'team.lite' names cost class 'lite'; declared are light, heavy."


def test_a_worker_of_an_undeclared_class_does_not_start() -> None:
    ran = _manage("worker", "lite")
    assert _is_one_sentence(ran), ran.stderr
    assert "There is no class 'lite'; there are light, heavy, control." in ran.stderr


@pytest.mark.parametrize(
    ("other", "value", "at_least"),
    [
        (
            "WEIGHBRIDGE_BEAT_SECONDS",
            "4",
            "3 times WEIGHBRIDGE_BEAT_SECONDS, which is 4, or living jobs lose their lease",
        ),
        (
            "WEIGHBRIDGE_SWEEP_SECONDS",
            "3.5",
            "10.5, the pause between sweeps that WEIGHBRIDGE_SWEEP_SECONDS, which is 3.5, lets pass unseen",
        ),
    ],
)
def test_timings_that_do_not_fit_together_stop_the_stack_in_one_sentence(other: str, value: str, at_least: str) -> None:
    """What `bin/up` asks first; a worker that is started by hand refuses too, in more lines."""
    ran = _python("-m", "stack.plan", WEIGHBRIDGE_LEASE_SECONDS="10", **{other: value})
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    sentence = f"The settings cannot be used: WEIGHBRIDGE_LEASE_SECONDS is 10, but must be at least {at_least}."
    assert ran.stderr.splitlines()[-1] == sentence


def test_only_the_named_modules_register_job_types(tmp_path: Path) -> None:
    """No check of the settings, and nothing else at the start, brings in a type that was not asked for."""
    (tmp_path / "bare.py").write_text("from project.settings import *\nWEIGHBRIDGE_JOB_MODULES = []\n")
    code = "import django; django.setup(); from django.core import checks; from jobs import registry; checks.run_checks(); print(registry.names())"
    path = os.pathsep.join([str(CHECKOUT), str(tmp_path)])
    ran = _python("-c", code, DJANGO_SETTINGS_MODULE="bare", PYTHONPATH=path)
    assert ran.stdout.strip().endswith("[]"), ran.stdout + ran.stderr


WORKER = """
import sys, django
from django.core.management import execute_from_command_line
django.setup()
from workers import keeper
keeper.Keeper.run = lambda keeper: print([name for name in ("jobs.api.urls", "rest_framework.views") if name in sys.modules])
execute_from_command_line(["manage.py", "worker", "light"])
"""


def test_a_worker_asks_its_own_checks_and_loads_no_api_for_those_of_the_web() -> None:
    right = _python("-c", WORKER)
    assert right.stdout == "[]\n", right.stderr
    wrong = _python("-c", WORKER, WEIGHBRIDGE_LEASE_SECONDS="10", WEIGHBRIDGE_BEAT_SECONDS="4")
    assert wrong.stdout == ""
    assert "(jobs.E004) WEIGHBRIDGE_LEASE_SECONDS is 10, but must be at least 3 times" in wrong.stderr
