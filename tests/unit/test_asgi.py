"""The bridge as this project sets it up: what it keeps of a body, and whose process it ties its life to."""

import json
import subprocess
import sys
from typing import Any

import pytest

from jobs import telemetry
from jobs.api.bodies import limit_bytes
from project import asgi
from project.asgi import _is_granian
from tests.unit.http_wire import ask, part, scope
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


@pytest.mark.parametrize(("largest", "kept_bytes"), [(2000, 2000), (None, sys.maxsize)])
def test_no_more_of_a_body_is_kept_than_its_address_could_take(settings: Any, largest: Any, kept_bytes: int) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = largest
    assert asgi._body_bytes("/admin/login/") == kept_bytes
    assert asgi._body_bytes("/nowhere") == asgi.OTHER_BYTES
    assert asgi._body_bytes("/api/v1/jobs") == limit_bytes()


def test_a_form_that_is_too_large_is_refused_here_and_a_job_by_its_view(settings: Any) -> None:
    """Django would take a form without its body for an empty one; a view says which length it takes."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 25
    counted = telemetry.HTTP_REFUSED.labels(413)._value
    before = counted.get()
    wire = ask(asgi.application, scope(path="/admin/login/"), part(b"x" * 26))
    assert counted.get() == before + 1
    assert (wire.status, wire.headers["content-type"]) == (413, "application/problem+json")
    assert json.loads(wire.body)["detail"] == "The body is larger than this address takes."
    assert asgi.application._limits.refuses_by_length("/api/v1/jobs")
