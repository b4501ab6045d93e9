"""The README's tables and the code name the same settings."""

import re
import subprocess
from pathlib import Path

from jobs.classes import RANGES

README = Path("README.md").read_text()
OURS = re.compile(r"WEIGHBRIDGE_[A-Z_]+[A-Z]")
# Set by the keeper for its own children; nobody else may.
INTERNAL = {"WEIGHBRIDGE_NODE_ID", "WEIGHBRIDGE_COST_CLASS", "WEIGHBRIDGE_READY_FD"}


def test_every_variable_that_the_settings_read_is_in_the_table() -> None:
    read = set(OURS.findall(Path("project/settings.py").read_text() + Path("project/env.py").read_text()))
    settings_only = {"WEIGHBRIDGE_REDIS_URL"}  # the Django setting behind REDIS_URL
    assert read - settings_only - _documented() == set()


def test_every_variable_in_the_table_is_read() -> None:
    sources = "".join(Path(path).read_text() for path in _tracked_sources())
    assert {name for name in _documented() if name not in sources} == set()


def test_every_number_of_a_class_is_in_the_table() -> None:
    documented = set(re.findall(r"WEIGHBRIDGE_<CLASS>_([A-Z_]+)`", README))
    assert documented == {field.upper() for field in RANGES}


def _documented() -> set[str]:
    return set(OURS.findall(README)) - INTERNAL


def _tracked_sources() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    return [path for path in listed if path.startswith(("project/", "stack/", "jobs/"))]
