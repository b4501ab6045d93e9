"""A stack in the foreground is stopped whatever ends the work on it, and the exit code tells what that was."""

import os
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import foreground
from stack.failures import StackError
from stack.local import Stack

CHECKOUT = Path(__file__).parents[2]
CHILDREN = {"stack.plan", "stack.provision"}


@pytest.fixture(autouse=True)
def stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Path]]:
    """The data directories of the stacks that were stopped."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    stopped: list[Path] = []
    monkeypatch.setattr(Stack, "stop", lambda stack: stopped.append(stack.data_dir))
    monkeypatch.setenv("WEIGHBRIDGE_DATA_DIR", str(tmp_path))
    yield stopped
    for number, handler in before.items():
        signal.signal(number, handler)


def _ends_well(stack: Stack) -> int:
    return 5


def _is_interrupted(stack: Stack) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return 5


def _fails(stack: Stack) -> int:
    raise StackError("As if it had failed.")


@pytest.mark.parametrize(
    ("work", "code", "says"),
    [(_ends_well, 5, ""), (_is_interrupted, 130, ""), (_fails, 1, "As if it had failed.\n")],
)
def test_the_exit_code_tells_how_the_work_ended(
    work: Callable[[Stack], int],
    code: int,
    says: str,
    stops: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert foreground.in_foreground(work, when_stopped=130) == code
    assert capsys.readouterr().err == says
    assert stops == [tmp_path]


def test_the_password_file_of_the_admin_is_named_only_when_there_is_one(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    assert "admin-password" not in "".join(foreground.where_to_look(stack))
    (tmp_path / "admin-password").touch()
    assert f"password in {tmp_path / 'admin-password'}" in "".join(foreground.where_to_look(stack))


def test_every_module_of_the_launcher_is_under_the_contract_that_keeps_django_out() -> None:
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    kept_out = next(c for c in contracts if c["name"] == "the launcher's parent process holds no Django")
    modules = {f"stack.{file.stem}" for file in (CHECKOUT / "stack").glob("*.py")} - {"stack.__init__"}
    assert set(kept_out["source_modules"]) == modules - CHILDREN
