"""What a handler changed of its whole process is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.alterations import Alterations

CHECKOUT = Path(__file__).parents[2]
PROGRAM = "from workers.alterations import Alterations; import os, resource; before = Alterations(); {act}; print(before.found())"


def test_of_a_job_that_changed_nothing_nothing_is_found() -> None:
    before = Alterations()
    assert before.found() == []


@pytest.mark.parametrize(
    ("act", "found"),
    [
        ("os.chdir('/')", "['working directory']"),
        ("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", "['working directory']"),
        ("os.umask(0)", "['umask']"),
        ("resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))", "['RLIMIT_AS']"),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))", "['RLIMIT_NOFILE']"),
    ],
)
def test_what_was_changed_is_named(tmp_path: Path, act: str, found: str) -> None:
    """In a process of its own, since it stays so."""
    program = [sys.executable, "-c", PROGRAM.format(act=act)]
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ran = subprocess.run(program, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == found


def test_to_look_changes_nothing() -> None:
    before = os.umask(0o027)
    try:
        Alterations().found()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
