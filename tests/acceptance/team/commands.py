"""manage.py as the team calls it."""

import subprocess
import sys

from stack.local import Stack
from stack.programs import ROOT

SETTINGS = "tests.acceptance.team.settings"


def manage(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command beside the running stack, told nothing but the settings module and the data directory."""
    environment = {"DJANGO_SETTINGS_MODULE": SETTINGS, "WEIGHBRIDGE_DATA_DIR": str(stack.data_dir)}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60)
