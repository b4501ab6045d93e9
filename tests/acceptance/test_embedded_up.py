"""bin/up as a person uses it: one ready line, refusals in sentences, an orderly end on Ctrl-C and TERM."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from stack import embedded, leftovers
from stack.ports import free_port
from tests.waiting import eventually

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="weighbridge-up-"))
    folder.chmod(0o711)
    yield folder / "data"
    shutil.rmtree(folder)


def _environment(data_dir: Path, **environ: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("WEIGHBRIDGE_")}
    for name in ("DATABASE_URL", "REDIS_URL", "PYTHONPATH"):
        ours.pop(name, None)
    return {**ours, "WEIGHBRIDGE_DATA_DIR": str(data_dir), "WEIGHBRIDGE_STOP_GRACE_SECONDS": "5", **environ}


def _up(data_dir: Path, **environ: str) -> subprocess.Popen[str]:
    """In a group of its own, as a shell starts a foreground job, so that a signal to the group is what Ctrl-C is."""
    return subprocess.Popen(
        [CHECKOUT / "bin/up"],
        env=_environment(data_dir, **environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _refusal(data_dir: Path, **environ: str) -> str:
    """What bin/up says when it does not start."""
    up = _up(data_dir, **environ)
    output, errors = up.communicate(timeout=60)
    assert up.returncode == 1
    assert output == ""
    assert "Traceback" not in errors
    return errors.strip()


def _all_have_slots(answer: httpx.Response) -> bool:
    return all(row["slots"] > 0 for row in answer.json()["classes"])


@pytest.mark.timeout(240)
def test_up_says_ready_once_refuses_a_second_and_ends_everything_on_ctrl_c(data_dir: Path) -> None:
    port = free_port()
    up = _up(data_dir, WEIGHBRIDGE_PORT=str(port))
    try:
        assert up.stdout is not None
        assert up.stdout.readline() == f"ready http://127.0.0.1:{port}\n"
        where_to_look = "".join(up.stdout.readline() for _ in range(5))
        assert all(word in where_to_look for word in ("demo-key", "/admin/", "Flower", "/metrics", "logs"))
        key = (data_dir / "demo-key").read_text().strip()
        bearer = {"Authorization": f"Bearer {key}"}
        # Each web process keeps its answer for a second, so one may still give that from before.
        eventually(lambda: _all_have_slots(httpx.get(f"http://127.0.0.1:{port}/api/v1/classes", headers=bearer)), 3)
        for secret in ("demo-key", "admin-password", "flower-password"):
            assert stat.S_IMODE((data_dir / secret).stat().st_mode) == 0o600
        assert f"in use by a running stack (process {up.pid})" in _refusal(data_dir)
        assert f"Port {port} (WEIGHBRIDGE_PORT) is taken" in _refusal(
            data_dir.with_name("other"), WEIGHBRIDGE_PORT=str(port)
        )
    finally:
        os.killpg(up.pid, signal.SIGINT)
        output, _ = up.communicate(timeout=90)
    assert up.returncode == 0
    assert "ready" not in output
    assert leftovers.marked(data_dir) == []
    assert embedded.server_pids(embedded.known_home(data_dir)) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.timeout(120)
def test_a_term_while_it_starts_ends_everything_too(data_dir: Path) -> None:
    up = _up(data_dir, WEIGHBRIDGE_PORT=str(free_port()))
    assert up.stderr is not None
    while "Bringing the database up to date" not in up.stderr.readline():
        assert up.poll() is None
    up.terminate()
    output, _ = up.communicate(timeout=90)
    assert up.returncode == 0
    assert "ready" not in output
    assert leftovers.marked(data_dir) == []
    assert embedded.server_pids(embedded.known_home(data_dir)) == []


def test_a_server_that_cannot_be_reached_is_told_without_its_password(data_dir: Path) -> None:
    port = free_port()
    said = _refusal(data_dir, DATABASE_URL=f"postgresql://someone:precious@127.0.0.1:{port}/x")
    assert said == f"PostgreSQL at 127.0.0.1:{port} (DATABASE_URL) does not answer: connection refused."


def test_a_wrong_setting_is_told_in_its_sentence(data_dir: Path) -> None:
    said = _refusal(data_dir, WEIGHBRIDGE_HEAVY_MAX_WAITING="-1")
    assert said.startswith("WEIGHBRIDGE_HEAVY_MAX_WAITING is '-1'")
    assert len(said.splitlines()) == 1
