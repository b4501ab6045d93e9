"""bin/up as a person uses it: one ready line, refusals in sentences, an orderly end on Ctrl-C and TERM."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import embedded, leftovers
from stack.ports import free_port

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
