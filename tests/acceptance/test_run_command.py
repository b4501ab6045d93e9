"""`manage.py run`: one handler in the foreground, with no server to be found anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.ports import free_port
from stack.programs import ROOT

MODULE = """
import time
from pydantic import BaseModel
from workers import Fail, JobContext, UploadId, job

class Params(BaseModel):
    n: int = 3

@job("my.square", cost_class="light", timeout=0.2, params=Params)
def square(ctx: JobContext[Params]) -> dict[str, object]:
    ctx.progress(0.25, "a quarter")
    ctx.log.info("squaring")
    time.sleep(0.5)  # past the limit, which is off
    ctx.check()
    return {"square": ctx.params.n ** 2, "first": [ctx.once("mail"), ctx.once("mail")]}

@job("my.debugged", cost_class="light", params=Params)
def debugged(ctx: JobContext[Params]) -> int:
    n = ctx.params.n
    breakpoint()
    return n

@job("my.fails", cost_class="light")
def fails(ctx) -> None:
    raise Fail("no_route", "There is no route.", {"from": "a"})

@job("my.breaks", cost_class="light")
def breaks(ctx) -> None:
    raise KeyError("oops")

@job("my.set", cost_class="light")
def returns_a_set(ctx) -> object:
    return {1}

class Sent(BaseModel):
    file: UploadId

@job("my.copy", cost_class="light", params=Sent)
def copy(ctx: JobContext[Sent]) -> None:
    with ctx.open_upload(ctx.params.file) as sent, ctx.artifacts.create("copy.txt") as left:
        left.write(sent.read())

@job("my.rows", cost_class="light")
def needs_the_database(ctx) -> int:
    from jobs.models import Job
    return Job.objects.count()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "my_jobs.py").write_text(MODULE)
    (tmp_path / "params.json").write_text('{"n": 12}')
    return tmp_path


def _run(home: Path, *arguments: str, given: str = "", **environ: str) -> "subprocess.CompletedProcess[str]":
    nowhere = f"127.0.0.1:{free_port()}"
    ours = {
        "PYTHONPATH": str(home),
        "WEIGHBRIDGE_JOB_MODULES": "my_jobs",
        "DATABASE_URL": f"postgresql://nobody@{nowhere}/x",
        "REDIS_URL": f"redis://{nowhere}/0",
    }
    return subprocess.run(
        [sys.executable, ROOT / "manage.py", "run", *arguments],
        check=False,
        cwd=home,
        env={**os.environ, **ours, **environ},
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_result_goes_to_standard_output_and_nothing_else_does(home: Path) -> None:
    ran = _run(home, "my.square", "params.json")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"square": 144, "first": [True, False]}), ran.stderr
    assert "25.0% a quarter" in ran.stderr
    assert '"event": "squaring"' in ran.stderr


def test_params_come_from_standard_input_or_are_left_out(home: Path) -> None:
    assert json.loads(_run(home, "my.square", "-", given='{"n": 2}').stdout)["square"] == 4
    assert json.loads(_run(home, "my.square").stdout)["square"] == 9


def test_a_debugger_reads_the_terminal_and_stops_in_the_handler(home: Path) -> None:
    ran = _run(home, "my.debugged", "params.json", given="p n + 1\n!n = 99\ncontinue\n")
    assert ran.returncode == 0, ran.stderr
    assert "-> breakpoint()" in ran.stdout or "-> return n" in ran.stdout
    assert "(Pdb) 13\n" in ran.stdout
    assert ran.stdout.endswith("99\n")


def test_a_failure_that_was_meant_is_a_sentence(home: Path) -> None:
    ran = _run(home, "my.fails")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines() == ["no_route: There is no route.", "{", '  "from": "a"', "}"]


def test_an_exception_shows_where_it_came_from(home: Path) -> None:
    ran = _run(home, "my.breaks")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert 'raise KeyError("oops")' in ran.stderr
    assert ran.stderr.splitlines()[-1] == "handler_error: KeyError"


def test_a_result_that_could_not_be_stored_fails_here_too(home: Path) -> None:
    ran = _run(home, "my.set")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == "bad_result: The handler's result is not JSON-able data."


def test_a_handler_that_needs_the_database_is_given_it(home: Path) -> None:
    assert "OperationalError" in _run(home, "my.rows").stderr
    # The session's server, in a database that has no tables of ours.
    ran = _run(home, "my.rows", DATABASE_URL=os.environ["DATABASE_URL"])
    assert (ran.returncode, ran.stdout) == (0, "0\n") or 'relation "jobs_job" does not exist' in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "sentence"),
    [
        (["my.cube"], "", "There is no job type 'my.cube'; there are arrays.convolve, "),
        (["my.square", "-"], '{"n": "x"}', "The params do not fit my.square: n: Input should be a valid integer"),
        (["my.square", "-"], "[1]", "Params must be a JSON object."),
        (["my.square", "-"], "{", "Standard input is not JSON: "),
        (["my.square", "none.json"], "", "none.json cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    home: Path, arguments: list[str], given: str, sentence: str
) -> None:
    ran = _run(home, *arguments, given=given)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.removeprefix("CommandError: ").startswith(sentence)
    assert len(ran.stderr.splitlines()) == 1


UPLOAD = "00000000-0000-7000-8000-000000000001"


def test_files_stand_for_uploads_and_what_it_leaves_goes_into_a_folder(home: Path) -> None:
    (home / "sent.txt").write_text("sent")
    given = json.dumps({"file": UPLOAD})
    ran = _run(home, "my.copy", "-", "--upload", f"{UPLOAD}=sent.txt", "--artifacts", "left", given=given)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, None), ran.stderr
    assert (home / "left/copy.txt").read_text() == "sent"
    assert "wrote left/copy.txt" in ran.stderr


def test_an_upload_that_no_file_stands_for_fails_and_a_file_that_is_not_there_is_told(home: Path) -> None:
    given = json.dumps({"file": UPLOAD})
    assert "upload_gone: " in _run(home, "my.copy", "-", given=given).stderr
    for wrong in (f"{UPLOAD}=nowhere.txt", "sent.txt", "x=my_jobs.py"):
        ran = _run(home, "my.copy", "-", "--upload", wrong, given=given)
        assert ran.returncode == 1
        assert "must be the id of an upload, = and a file that is there" in ran.stderr
