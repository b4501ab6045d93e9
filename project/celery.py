"""The Celery application. The broker carries wake-ups; nothing in it is needed to be right (P31)."""

import os

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

# Not the current one: a team's own application in the same process stays it, and its shared tasks go where they belong.
app = Celery("weighbridge", set_as_current=False)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.include = ["workers.tasks"]


@setup_logging.connect
def keep_our_logging(**kwargs: object) -> None:
    """Being connected is enough: Celery then leaves logging as the settings made it."""
