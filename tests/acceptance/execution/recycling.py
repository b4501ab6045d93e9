"""Settings of a team that recycles each child after one job."""

from project.settings import *  # noqa: F403

CELERY_WORKER_MAX_TASKS_PER_CHILD = 1
