"""The environment of a stack's processes, and our own modules run as children in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from stack.failures import StackError
from stack.leftovers import MARK
from stack.programs import ROOT
from stack.supervision import last_lines

# Exit code of a module that has said, in the last line of its standard error, what is wrong.
TOLD = 2


def overlaid(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` over our own environment. An empty value takes a variable away; an empty address counts as none."""
    both = {**os.environ, **environ}
    taken_away = {name for name, value in environ.items() if value == ""}
    taken_away |= {name for name in ("DATABASE_URL", "REDIS_URL") if not both.get(name)}
    return {name: value for name, value in both.items() if name not in taken_away}


def stack_environment(given: Mapping[str, str], data_dir: Path, settings_module: str | None) -> dict[str, str]:
    """What every process of the stack gets, but for the addresses, which are known later."""
    module = settings_module or given.get("DJANGO_SETTINGS_MODULE", "project.settings")
    return dict(given) | {
        "DJANGO_SETTINGS_MODULE": module,
        "WEIGHBRIDGE_DATA_DIR": str(data_dir),
        "PROMETHEUS_MULTIPROC_DIR": str(data_dir / "metrics"),
        "PYTHONPATH": _absolute_path_list(given.get("PYTHONPATH", "")),
        "PYTHONUNBUFFERED": "1",
        # What a process that was killed leaves of its temporary files is removed at the next start.
        "TMPDIR": str(data_dir / "tmp"),
        MARK: str(data_dir),
    }


def _absolute_path_list(path_list: str) -> str:
    """The checkout first, then PYTHONPATH's entries as seen from where we were called: the programs run elsewhere."""
    entries = [os.path.abspath(entry) for entry in path_list.split(os.pathsep) if entry]
    return os.pathsep.join(dict.fromkeys([str(ROOT), *entries]))


def run_module(
    module: str, environment: Mapping[str, str], log: Path, timeout_seconds: float, say: Callable[[str], None]
) -> str:
    """Run one of our modules and return its output; its warnings are passed on. Raises StackError with its sentence."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Out of the terminal's group: a Ctrl-C is the launcher's to handle.
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        raise StackError(f"{module} did not end within {timeout_seconds:.0f} s.") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    log.write_text(output + errors)
    _refuse_failure(module, process.returncode, errors, log)
    for line in errors.splitlines():
        say(line)
    return output


def _refuse_failure(module: str, code: int, errors: str, log: Path) -> None:
    lines = [line for line in errors.splitlines() if line.strip()]
    if code == TOLD and lines:
        raise StackError(lines[-1])
    if code != 0:
        raise StackError(f"{module} failed (exit code {code}); its log {log} ends:\n{last_lines(log)}")
