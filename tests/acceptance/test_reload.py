"""bin/up --reload: new code runs a moment after it was saved, and what runs is not cut off for it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import embedded, reload
from stack.children import overlaid
from stack.ports import free_port
from stack.programs import ROOT
from stack.reload import Reloader, changes, places_of, programs_of, snapshot
from tests.acceptance.conftest import SHORT
from tests.api_client import Api
from tests.waiting import eventually

MODULE = """
import time
from pydantic import BaseModel
from workers import JobContext, job

class Params(BaseModel):
    hold: bool = False

@job("my.word", cost_class=lambda params: "heavy" if params.hold else "light", params=Params)
def word(ctx: JobContext[Params]) -> str:
    while ctx.params.hold and not ctx.stopping:
        time.sleep(0.05)
    return "{word}"
"""


@dataclass(frozen=True)
class Up:
    """bin/up --reload, as a person has it in a terminal."""

    process: "subprocess.Popen[bytes]"
    errors: Path
    module: Path
    url: str
    data_dir: Path

    def said(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.process.poll() is None and self.errors.read_text().count(text) >= times, 90)

    def api(self) -> Api:
        return Api(self.url, (self.data_dir / "demo-key").read_text().strip())


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    port = free_port()
    # A folder besides, with the code, so that a look at it is a look at nothing else.
    (tmp_path / "code").mkdir()
    module = tmp_path / "code/my_jobs.py"
    module.write_text(MODULE.replace("{word}", "old"))
    environ = {
        **SHORT,
        "WEIGHBRIDGE_PORT": str(port),
        "WEIGHBRIDGE_DATA_DIR": str(tmp_path / "data"),
        "WEIGHBRIDGE_STOP_GRACE_SECONDS": "30",
        "WEIGHBRIDGE_HEAVY_TIMEOUT_SECONDS": "300",
        "WEIGHBRIDGE_HEAVY_PROCESSES": "1",
        "WEIGHBRIDGE_WEB_PROCESSES": "1",
        "WEIGHBRIDGE_JOB_MODULES": "my_jobs",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(module.parent)]),
    }
    errors, output = tmp_path / "errors", tmp_path / "output"
    with errors.open("wb") as stderr, output.open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stack.up", "--reload"],
            cwd=tmp_path,
            env=overlaid(environ),
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        eventually(lambda: process.poll() is not None or b"ready" in output.read_bytes(), 120)
        assert process.poll() is None, errors.read_text()
        yield Up(process, errors, module, f"http://127.0.0.1:{port}", tmp_path / "data")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, errors.read_text()
        embedded.forget(tmp_path / "data")


@pytest.mark.timeout(400)
def test_new_code_runs_without_cutting_off_what_runs(up: Up) -> None:
    with up.api() as api:
        held = api.submit("my.word", {"hold": True})
        api.in_state(held, "running")
        up.module.write_text("def broken(:\n")
        up.said("Not reloaded: ")
        assert "SyntaxError" in up.errors.read_text()
        assert api.ended(api.submit("my.word"))["result"] == "old"
        assert api.job(held)["state"] == "running"

        up.module.write_text(MODULE.replace("{word}", "new"))
        up.said("Changed: ", times=2)
        up.said("Reloaded.")
        job = api.ended(held)
        assert (job["state"], job["result"], job["attempt"]) == ("succeeded", "old", 1)
        assert api.ended(api.submit("my.word"))["result"] == "new"


# ── What is looked at ────────────────────────────────────────────────────────────────────────────────────────────────


def _team(tmp_path: Path) -> Callable[..., Mapping[str, str]]:
    package = tmp_path / "shop"
    (package / "deep").mkdir(parents=True)
    (package / ".hidden").mkdir()
    for name in ("__init__.py", "jobs.py", "deep/helper.py", ".hidden/no.py", "notes.txt"):
        (package / name).write_text("raise AssertionError('looking must import nothing')")
    (tmp_path / "plain.py").touch()
    (tmp_path / "beside.py").touch()
    return lambda **more: {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), **more}


def _seen(environ: Mapping[str, str], under: Path) -> set[str]:
    return {str(file.relative_to(under)) for file in snapshot(places_of(environ)) if file.is_relative_to(under)}


def test_all_of_a_package_is_looked_at_and_nothing_is_imported(tmp_path: Path) -> None:
    environ = _team(tmp_path)(WEIGHBRIDGE_JOB_MODULES="shop.jobs")
    assert _seen(environ, tmp_path) == {"shop/__init__.py", "shop/jobs.py", "shop/deep/helper.py"}
    assert {"workers/context.py", "jobs/models/jobs.py", "project/settings.py"} <= _seen(environ, ROOT)
    assert "shop" not in sys.modules


def test_a_lone_module_is_looked_at_with_those_beside_it(tmp_path: Path) -> None:
    assert _seen(_team(tmp_path)(WEIGHBRIDGE_JOB_MODULES=" plain , none"), tmp_path) == {"plain.py", "beside.py"}


def test_a_teams_settings_are_looked_at(tmp_path: Path) -> None:
    assert "shop/jobs.py" in _seen(_team(tmp_path)(DJANGO_SETTINGS_MODULE="shop.settings"), tmp_path)


def test_changed_added_and_removed_files_are_changes(tmp_path: Path) -> None:
    before = {tmp_path / "a": (1, 1), tmp_path / "b": (1, 1), tmp_path / "c": (1, 1)}
    now = {tmp_path / "a": (2, 1), tmp_path / "c": (1, 1), tmp_path / "d": (1, 1)}
    assert [path.name for path in changes(before, now)] == ["a", "b", "d"]
    assert changes(now, now) == []


def test_the_web_is_first_and_the_sweeps_are_last_and_what_loads_no_job_module_is_left_alone() -> None:
    running = dict.fromkeys(
        ["postgres", "valkey", "beat", "flower", "worker-light", "worker-control", "web"], "RUNNING"
    )
    assert programs_of(running) == ["web", "worker-light", "worker-control"]


# ── When ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Recorded:
    """Stands for a running stack; it writes down what it is told to do."""

    def __init__(self, environment: Mapping[str, str], on_restart: Callable[[], object] = lambda: None) -> None:
        self.environment = environment
        self.restarted: list[str] = []
        self._on_restart = on_restart

    def programs(self) -> dict[str, str]:
        return {"web": "RUNNING", "worker-light": "RUNNING"}

    def restart_program(self, name: str) -> None:
        self.restarted.append(name)
        self._on_restart()

    def wait_ready(self, seconds: float) -> None:
        self.restarted.append("ready")

    def log(self, name: str) -> Path:
        return Path(os.devnull)


def test_several_files_saved_one_after_another_are_one_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "run_module", lambda *arguments: "")
    stack = Recorded(_team(tmp_path)(WEIGHBRIDGE_JOB_MODULES="plain"))
    reloader = Reloader(stack, lambda sentence: None)  # type: ignore[arg-type]
    reloader.look()
    (tmp_path / "plain.py").write_text("1")
    reloader.look()
    (tmp_path / "new.py").write_text("2")
    reloader.look()
    assert stack.restarted == []
    for _ in range(3):
        reloader.look()
    assert stack.restarted == ["web", "worker-light", "ready"]


def test_what_is_saved_during_a_reload_reaches_no_worker_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(reload, "run_module", lambda *arguments: checked.append((tmp_path / "plain.py").read_text()))
    environment = _team(tmp_path)(WEIGHBRIDGE_JOB_MODULES="plain")
    saves = iter(["second"])
    stack = Recorded(environment, on_restart=lambda: [(tmp_path / "plain.py").write_text(text) for text in saves])
    said: list[str] = []
    reloader = Reloader(stack, said.append)  # type: ignore[arg-type]
    (tmp_path / "plain.py").write_text("first")
    for _ in range(2):
        reloader.look()
    assert (checked, stack.restarted) == (["first"], ["web", "ready"])
    assert said[-1] == "Changed again meanwhile."
    for _ in range(3):
        reloader.look()
    assert (checked[1:], stack.restarted[2:]) == (["second"], ["web", "worker-light", "ready"])
    assert said[-1] == "Reloaded."
