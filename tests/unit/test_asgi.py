"""Whose process the web application ties its life to."""

import subprocess
import sys

import pytest

from project.asgi import _is_granian
from workers import kernel


@pytest.mark.parametrize(
    ("command", "is_granian"),
    [
        (["/venv/bin/python", "/venv/bin/granian", "--interface", "asgi"], True),
        (["python", "-m", "granian", "project.asgi:application"], True),
        (["python", "-u", "-m", "granian"], True),
        (["bash"], False),
        (["bash", "-c", "granian --interface asgi project.asgi:application"], False),
        (["/venv/bin/python", "/venv/bin/gunicorn", "project.asgi"], False),
        (["uwsgi", "--module", "project.asgi", "--procname", "x", "granian"], False),
        ([], False),
    ],
)
def test_only_granians_main_process_is_one_to_die_with(command: list[str], is_granian: bool) -> None:
    assert _is_granian(command) is is_granian


def test_under_another_parent_the_application_outlives_it() -> None:
    """As under a server that is its own main process, started from a shell."""
    asked = (
        "import ctypes, project.asgi; n = ctypes.c_int(-1); ctypes.CDLL(None).prctl(2, ctypes.byref(n)); print(n.value)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[-1] == "0"


def test_a_command_is_read_word_by_word() -> None:
    asked = "import os; from workers import kernel; print(kernel.command_of(os.getpid())[1:])"
    done = subprocess.run(
        [sys.executable, "-c", asked, "a b", ""], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == f"{['-c', asked, 'a b', '']}\n"
    assert kernel.command_of(4_000_000) == []
