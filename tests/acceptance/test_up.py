"""bin/up, started and stopped as a person does it."""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stack import embedded
from stack.children import overlaid
from stack.programs import ROOT
from tests import processes
from tests.acceptance.conftest import short_environment
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history import rows
from tests.history.checker import check
from tests.history.events import NemesisBegan
from tests.history.recorder import History, now
from tests.history.seen import Bounds
from tests.waiting import eventually

READY_SECONDS = 120.0
# The grace, what a keeper may take beyond it, and the databases' own shutdown.
STOP_SECONDS = 40.0


@pytest.mark.timeout(360)  # two whole starts and stops, on a machine that others may use
def test_a_stop_lets_running_jobs_finish_leaves_no_process_and_keeps_what_waits(
    tmp_path: Path, history: History, diary: Diary
) -> None:
    """First Ctrl-C, then, on the same data directory, TERM."""
    data_dir = tmp_path / "data"
    with _up(data_dir, tmp_path / "first", history) as (up, api):
        _must_say_where_to_look(data_dir, tmp_path / "first")
        _must_refuse_another(up.pid, data_dir, api.http.base_url.port or 0)
        running = [_submit(api, diary, f"r{i}") for i in range(2)]
        diary.wait_until_began("r0", "r1")
        queued = _submit(api, diary, "queued")
        history.append(NemesisBegan("stop", "Interrupt", "term", (up.pid,), now()))
        os.killpg(up.pid, signal.SIGINT)  # a terminal signals the whole foreground group
        diary.open_gate()
        assert up.wait(STOP_SECONDS) == 0
    assert processes.that_know(data_dir) == {}
    assert sorted(diary.ended()) == ["r0", "r1"], "they finished, and nothing was begun"
    assert (tmp_path / "first").read_text().count("ready") == 1

    with _up(data_dir, tmp_path / "second", history) as (up, api):
        assert [(api.job(job_id)["state"]) for job_id in running] == ["succeeded", "succeeded"]
        assert api.ended(queued)["state"] == "succeeded"
        database_url = json.loads((data_dir / "addresses.json").read_text())["DATABASE_URL"]
        check(history.events(), rows.read(database_url), Bounds(processes={"heavy": 2})).must_hold()
        os.kill(up.pid, signal.SIGTERM)
        assert up.wait(STOP_SECONDS) == 0
    assert processes.that_know(data_dir) == {}
    embedded.forget(data_dir)


@contextmanager
def _up(data_dir: Path, output: Path, history: History) -> Iterator[tuple[subprocess.Popen[bytes], Api]]:
    """bin/up once it has printed its ready line, and a caller that holds its key."""
    environ = overlaid(short_environment(WEIGHBRIDGE_DATA_DIR=str(data_dir)))
    url, errors = f"http://127.0.0.1:{environ['WEIGHBRIDGE_PORT']}", output.with_suffix(".errors")
    with output.open("wb") as out, errors.open("wb") as err:
        up = subprocess.Popen(
            [ROOT / "bin/up"], cwd=data_dir.parent, env=environ, stdout=out, stderr=err, start_new_session=True
        )
    try:
        eventually(lambda: up.poll() is not None or output.read_text().startswith(f"ready {url}\n"), READY_SECONDS)
        assert up.poll() is None, errors.read_text()
        with Api(url, (data_dir / "demo-key").read_text().strip(), history) as api:
            yield up, api
    finally:
        up.kill()  # what it started follows it


def _must_say_where_to_look(data_dir: Path, output: Path) -> None:
    words = ("demo-key", "/api/docs/", "/admin/", "Flower", "/metrics", "logs")
    eventually(lambda: all(word in output.read_text() for word in words), 5)
    for secret in ("demo-key", "admin-password", "flower-password"):
        assert stat.S_IMODE((data_dir / secret).stat().st_mode) == 0o600


def _must_refuse_another(pid: int, data_dir: Path, port: int) -> None:
    """On the same data directory, or the same port."""
    assert f"in use by a running stack (process {pid})" in _refusal(data_dir, port)
    assert (data_dir / "addresses.json").exists(), "manage.py finds the running one all the same"
    assert f"Port {port} (WEIGHBRIDGE_PORT) is taken" in _refusal(data_dir.with_name("other"), port)


def _refusal(data_dir: Path, port: int) -> str:
    environ = overlaid(short_environment(WEIGHBRIDGE_DATA_DIR=str(data_dir), WEIGHBRIDGE_PORT=str(port)))
    done = subprocess.run([ROOT / "bin/up"], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def _submit(api: Api, diary: Diary, name: str) -> str:
    return api.submit("tests.note", diary.params(name, seconds=1.0, cost_class="heavy", held=True))
