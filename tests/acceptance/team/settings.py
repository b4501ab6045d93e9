"""Settings of a team: ours first, then what they add."""

import json
import os
import sys

from project.settings import *  # noqa: F403
from project.settings import COST_CLASSES, DATABASES, INSTALLED_APPS, WEIGHBRIDGE_JOB_MODULES

INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.team"]
COST_CLASSES = {
    **COST_CLASSES,
    # No waiting room: a job is taken exactly while a process is free for it.
    "scales": {
        "processes": 1,
        "max_waiting": 0,
        "max_wait_seconds": 10,
        "timeout_seconds": 10,
        "ceiling_seconds": 30,
    },
}
DATABASES = {**DATABASES, "archive": {**DATABASES["default"], "NAME": "archive"}}
DATABASE_ROUTERS = ["tests.acceptance.team.routers.ArchiveRouter"]
WEIGHBRIDGE_JOB_MODULES = [*WEIGHBRIDGE_JOB_MODULES, "tests.acceptance.team.weigh"]

# Services of this machine, which a test starts before its stack.
WEIGHBRIDGE_SERVICES = json.loads(os.environ.get("TEST_SERVICES", "{}"))
if sys.argv[1:3] == ["worker", "heavy"]:  # in its workers only
    CELERY_WORKER_MAX_TASKS_PER_CHILD = 1
