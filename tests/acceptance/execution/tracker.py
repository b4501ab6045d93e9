"""Stands for an error tracker: what it is told goes into a file of the job's history, if it has one."""

import json
from pathlib import Path

from django.conf import settings

from workers.reporting import FailedJob


def note(error: BaseException, job: FailedJob) -> None:
    line = {"job": str(job.id), "attempt": job.attempt, "type": job.type, "error": type(error).__name__}
    with told(settings.WEIGHBRIDGE_DATA_DIR).open("a") as file:
        file.write(json.dumps(line) + "\n")


def told(data_dir: Path) -> Path:
    return data_dir / "told-to-the-tracker"
