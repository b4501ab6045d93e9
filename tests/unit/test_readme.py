"""The README's tables and the code name the same settings."""

import re
import subprocess
from pathlib import Path

from jobs.classes import RANGES
from stack.programs import Places, Plan, app_programs

README = Path("README.md").read_text()
OURS = re.compile(r"WEIGHBRIDGE_[A-Z_]+[A-Z]")
# Set by the keeper for its own children; nobody else may.
INTERNAL = {"WEIGHBRIDGE_NODE_ID", "WEIGHBRIDGE_COST_CLASS", "WEIGHBRIDGE_READY_FD"}


def test_every_variable_that_the_settings_read_is_in_the_table() -> None:
    read = set(OURS.findall(Path("project/settings.py").read_text() + Path("project/env.py").read_text()))
    # Django's settings, not the environment's: the one behind REDIS_URL, and a table that docs/slow-services.md shows.
    settings_only = {"WEIGHBRIDGE_REDIS_URL", "WEIGHBRIDGE_SERVICES"}
    assert read - settings_only - _documented() == set()


def test_every_variable_in_the_table_is_read() -> None:
    sources = "".join(Path(path).read_text() for path in _tracked_sources())
    assert {name for name in _documented() if name not in sources} == set()


def test_every_number_of_a_class_is_in_the_table() -> None:
    documented = set(re.findall(r"WEIGHBRIDGE_<CLASS>_([A-Z_]+)`", README))
    assert documented == {field.upper() for field in RANGES}


def test_the_web_server_is_started_by_hand_as_bin_up_starts_it() -> None:
    plan = Plan({}, web_processes=2, stop_grace_seconds={"control": 30.0})
    web = app_programs(plan, Places(Path(".data"), 8000, 5555, "secret"))[0]
    options = " ".join(web.command).partition("-m granian ")[2]
    by_hand = " ".join(README.replace("\\\n", " ").split())
    assert f".venv/bin/granian {options}" in by_hand


def test_every_page_of_the_docs_is_in_the_list_of_places() -> None:
    assert {f"docs/{page.name}" for page in Path("docs").glob("*.md")} <= set(
        re.findall(r"\| `(docs/[a-z-]+\.md)`", README)
    )


def _documented() -> set[str]:
    return set(OURS.findall(README)) - INTERNAL


def _tracked_sources() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout.split()
    return [path for path in listed if path.startswith(("project/", "stack/", "jobs/")) and Path(path).exists()]
