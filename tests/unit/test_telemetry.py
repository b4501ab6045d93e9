"""Counts that cannot be kept fail nobody, and are kept again as soon as they can be."""

import os
import subprocess
import sys
from pathlib import Path

# Counts before the folder is gone, while it cannot be made, and after; each time also in a new process.
COUNTING = """
import os, shutil, sys
from pathlib import Path
from jobs import telemetry
folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])

def count():
    telemetry.STALE_SETTLES.inc()
    telemetry.RUN.labels("light").observe(1.0)
    telemetry.ADMITTED.labels(f"class{os.getpid()}").inc()

def in_a_fork():
    child = os.fork()
    if child == 0:
        count()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

count()
in_a_fork()
shutil.rmtree(folder)
folder.write_text("not a folder")
count()
in_a_fork()
folder.unlink()
in_a_fork()
print(sorted(file.name.partition("_")[0] for file in folder.iterdir()))
"""


def test_a_count_that_cannot_be_kept_fails_nobody(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "WEIGHBRIDGE_DATA_DIR": str(tmp_path),
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "metrics"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "['counter', 'histogram']"
    assert "not_counted" in ran.stdout
