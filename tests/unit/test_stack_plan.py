"""What the settings ask for, as the launcher's child says it."""

import json
import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_each_class_s_own_grace_is_in_the_plan(tmp_path: Path) -> None:
    graces = {"WEIGHBRIDGE_STOP_GRACE_SECONDS": "7", "WEIGHBRIDGE_HEAVY_STOP_GRACE_SECONDS": "120"}
    ran = subprocess.run(
        [sys.executable, "-m", "stack.plan"],
        cwd=CHECKOUT,
        env={**os.environ, "WEIGHBRIDGE_DATA_DIR": str(tmp_path), **graces},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["stop_grace_seconds"] == {"light": 7.0, "heavy": 120.0, "control": 7.0}
