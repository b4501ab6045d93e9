"""What the settings ask for, as the launcher's child says it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from stack.programs import Places, Plan, app_programs

CHECKOUT = Path(__file__).parents[2]


def _plan(data_dir: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stack.plan"],
        cwd=CHECKOUT,
        env={**os.environ, "WEIGHBRIDGE_DATA_DIR": str(data_dir), **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_misspelt_variable_is_told(tmp_path: Path) -> None:
    ran = _plan(tmp_path, WEIGHBRIDGE_WEB_PROCESES="3")
    assert ran.returncode == 0
    meant = "The environment variable WEIGHBRIDGE_WEB_PROCESES sets nothing; is WEIGHBRIDGE_WEB_PROCESSES meant?"
    assert f"Warning: {meant}\n" in ran.stderr


def test_a_variable_of_a_class_is_no_misspelt_one(tmp_path: Path) -> None:
    ran = _plan(tmp_path, WEIGHBRIDGE_HEAVY_PROCESSES="2")
    assert ran.returncode == 0
    assert "WEIGHBRIDGE_HEAVY_PROCESSES" not in ran.stderr


def test_a_module_with_an_error_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "own_jobs.py").write_text("import json\n\nprize = price\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ran = _plan(tmp_path, PYTHONPATH=path, WEIGHBRIDGE_JOB_MODULES="own_jobs")
    assert ran.returncode == 2
    assert "NameError: name 'price' is not defined" in ran.stderr
    assert f"({tmp_path / 'own_jobs.py'}, line 3)" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_module_that_is_no_python_is_told_with_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "own_jobs.py").write_text("import json\n\ndef f(:\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ran = _plan(tmp_path, PYTHONPATH=path, WEIGHBRIDGE_JOB_MODULES="own_jobs")
    assert ran.returncode == 2
    assert ran.stderr.endswith(f"(own_jobs.py, line 3) ({tmp_path / 'own_jobs.py'})\n")
    assert len(ran.stderr.splitlines()) == 1


def test_each_class_s_own_grace_is_in_the_plan(tmp_path: Path) -> None:
    ran = _plan(tmp_path, WEIGHBRIDGE_STOP_GRACE_SECONDS="7", WEIGHBRIDGE_HEAVY_STOP_GRACE_SECONDS="120")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["stop_grace_seconds"] == {"light": 7.0, "heavy": 120.0, "control": 7.0}


def test_the_time_of_heads_is_that_of_bodies_and_the_web_server_is_told_it_in_milliseconds(tmp_path: Path) -> None:
    """And it waits for no bytes to tell one protocol from another, without any time for them."""
    ran = _plan(tmp_path, WEIGHBRIDGE_ARRIVAL_SECONDS="7")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)["arrival_seconds"]
    plan = Plan({}, web_processes=1, stop_grace_seconds={"control": 1.0}, arrival_seconds=told)
    web = " ".join(app_programs(plan, Places(tmp_path, 8000, 5555, "secret"))[0].command)
    assert " --http 1 --http1-header-read-timeout 7000 " in web


def test_a_time_that_the_web_server_does_not_take_stops_the_start(tmp_path: Path) -> None:
    ran = _plan(tmp_path, WEIGHBRIDGE_ARRIVAL_SECONDS="61")
    assert ran.returncode == 2
    assert "WEIGHBRIDGE_ARRIVAL_SECONDS" in ran.stderr
    assert "61" in ran.stderr
