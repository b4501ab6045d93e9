"""`manage.py plan --measure`: one type in threads and in processes, each number in a process of its own; and which pays."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from django.core.management import CommandError, call_command

from stack.programs import ROOT
from workers.planning import measured
from workers.planning.measuring import Figures, Measured
from workers.sizing import MIB

MODULE = """
import os
from pydantic import BaseModel
from workers import Fail, JobContext, job

class Params(BaseModel):
    mib: int = 0

@job("my.block", cost_class="light", params=Params)
def block(ctx: JobContext[Params]) -> int:
    print("noise")
    with ctx.artifacts.create("left.txt") as file:
        file.write(b"x")
    return len(bytearray(b"x") * (ctx.params.mib << 20))

@job("my.fails", cost_class="light")
def fails(ctx) -> None:
    raise Fail("no_route", "There is no route.")

@job("my.dies", cost_class="light")
def dies(ctx) -> None:
    "One of those that are tried, while the others go on."
    try:
        os.close(os.open(os.environ["TMPDIR"] + "/taken", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(3)
"""


def _measure(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "manage.py", "plan", "--format", "json", "--measure", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_jobs.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("WEIGHBRIDGE_JOB_MODULES", "my_jobs")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_one_two_threads_and_two_processes_are_tried_with_memory_of_their_own(home: Path) -> None:
    (home / "params.json").write_text('{"mib": 64}')
    ran = _measure("my.block", "--params", str(home / "params.json"), "--seconds", "0.2", "--up-to", "2")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert [(each["kind"], each["at_once"]) for each in found["figures"]] == [
        ("processes", 1),
        ("threads", 2),
        ("processes", 2),
    ]
    one, threads, processes = found["figures"]
    assert all(each["runs"] >= each["at_once"] and each["runs_per_second"] > 0 for each in found["figures"])
    assert one["peak_bytes"] == one["peak_bytes_of_one"] >= 64 * MIB
    assert threads["peak_bytes"] == threads["peak_bytes_of_one"]  # they are of one process
    assert processes["peak_bytes"] >= 1.5 * one["peak_bytes"]
    assert found["pays"] in {"threads", "processes", "neither"}
    assert not list(home.glob("weighbridge-measure-*"))


@pytest.mark.parametrize(
    ("type_name", "sentence"),
    [
        ("my.fails", "CommandError: my.fails fails with these params: no_route: There is no route."),
        ("my.dies", "CommandError: my.dies fails with these params: its process ended in the middle."),
    ],
)
def test_a_handler_that_fails_or_ends_its_process_is_told_in_a_sentence(
    home: Path, type_name: str, sentence: str
) -> None:
    ran = _measure(type_name, "--seconds", "0.2", "--up-to", "1")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == sentence


def test_one_process_that_dies_is_not_waited_for_by_the_others(home: Path) -> None:
    asked = {"type": "my.dies", "params": {}, "uploads": {}, "seconds": 0.1, "kind": "processes", "at_once": 3}
    given = json.dumps({**asked, "folder": str(home), "answer": str(home / "answer")})
    command = [sys.executable, "-m", "workers.planning.measured"]
    environ = {**os.environ, "PYTHONPATH": f"{home}:{ROOT}", "DJANGO_SETTINGS_MODULE": "project.settings"}
    subprocess.run(command, input=given, text=True, env=environ, cwd=home, timeout=60, check=True)
    assert json.loads((home / "answer").read_text()) == {"failed": "its process ended in the middle."}


def test_one_that_died_before_anybody_looked_is_not_waited_for_either() -> None:
    context = multiprocessing.get_context("spawn")
    dead, alive = context.Process(target=sys.exit, args=(1,)), context.Process(target=time.sleep, args=(100,))
    for process in (dead, alive):
        process.start()
    dead.join(20)
    began = time.monotonic()
    assert not measured._all_end_in_order([dead, alive])
    assert time.monotonic() - began < 20


def test_a_handler_that_takes_too_long_is_ended_with_all_of_its_processes(home: Path) -> None:
    (home / "params.json").write_text('{"seconds": 600}')
    ran = _measure("probe.sleep", "--params", str(home / "params.json"), "--limit-seconds", "2", "--up-to", "1")
    assert ran.returncode == 1
    assert "probe.sleep did not end within 2 s, 1 at once (processes); --limit-seconds gives it longer." in ran.stderr
    assert not [each for each in psutil.process_iter(["cmdline", "environ"]) if _of_this(each, home)]


def _of_this(process: psutil.Process, home: Path) -> bool:
    environ = process.info["environ"] or {}
    return "workers.planning.measured" in (process.info["cmdline"] or []) and environ.get("TMPDIR") == str(home)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["probe.slep"], "There is no job type 'probe.slep'; there are "),
        (["probe.sleep"], "The params do not fit probe.sleep: seconds: Field required."),
        (["probe.sleep", "--params", "nowhere.json"], "nowhere.json cannot be read: No such file or directory."),
        (["probe.sleep", "--params", "README.md"], "README.md is not JSON: "),
        (["probe.sleep", "--upload", "x=y"], "--upload x=y: must be the id of an upload, = and a file that is there."),
        (["probe.sleep", "--up-to", "0"], "--up-to is '0', but must be a whole number from 1 to 256."),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(arguments: Sequence[str], sentence: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write('{"seconds": 0}')
        file.flush()
        if arguments[1:2] in (["--upload"], ["--up-to"]):
            arguments = [*arguments, "--params", file.name]
        with pytest.raises(CommandError) as refused:
            call_command("plan", "--measure", *arguments, stdout=StringIO(), stderr=StringIO())
    assert str(refused.value).startswith(sentence)


# ── The verdict ──────────────────────────────────────────────────────────────────────────────────────────────────

ONE = Figures("processes", 1, 10, 10.0, 0.1, 80 * MIB, 80 * MIB, 1.0)


def _measured(threads: float, processes: float, **more: Any) -> Measured:
    """As times what one does."""
    two = [
        replace(ONE, kind=kind, at_once=2, runs_per_second=10 * gain)
        for kind, gain in (("threads", threads), ("processes", processes))
    ]
    return Measured("my.type", [ONE, *two], **more)


@pytest.mark.parametrize(
    ("threads", "processes", "pays"),
    [
        (1.0, 1.9, "processes"),
        (1.9, 1.9, "threads"),
        (1.71, 1.9, "threads"),  # nine tenths
        (1.70, 1.9, "processes"),
        (1.24, 1.24, "neither"),
        (0.5, 1.25, "processes"),
        (1.9, 1.0, "threads"),
    ],
)
def test_what_pays_is_what_does_more_and_threads_if_they_do_nearly_as_much(
    threads: float, processes: float, pays: str
) -> None:
    assert _measured(threads, processes).pays == pays


def test_the_verdict_names_the_figures_and_a_busy_machine_tells_nothing() -> None:
    assert _measured(1.0, 1.9).verdict() == (
        "Processes pay: up to 2 processes do 1.90 times what one does, up to 2 threads 1.00 times."
        " The work holds the interpreter's lock."
    )
    assert _measured(1.0, 1.0, load_before=0.5, cores=2).verdict().startswith("Neither pays")
    assert _measured(1.0, 1.0, load_before=9.0, cores=2).verdict().startswith("Nothing can be told")
    assert "--up-to 2 tries two" in Measured("my.type", [ONE]).verdict()


def test_the_table_has_a_row_for_each_number() -> None:
    text = _measured(1.0, 1.9).as_text()
    assert [line.split()[:2] for line in text.splitlines()[2:5]] == [["1", "10"], ["2", "threads"], ["2", "processes"]]
