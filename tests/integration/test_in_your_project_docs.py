"""docs/in-your-project.md is true: its project starts, keeps the API as it is, and its periodic job is one job a day."""

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs import registry
from jobs.models import ApiClient, Job
from stack.programs import ROOT

PAGE = (ROOT / "docs/in-your-project.md").read_text()
FILES = ("settings", "urls", "models", "job_types", "periodic", "celery")

# What a team may set too; the API's views must not follow it.
OPEN_TO_ALL = 'REST_FRAMEWORK = {"DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"]}\n'

IN_THE_PROJECT = """
import django

django.setup()

from celery import current_app
from django.conf import settings
from django.core import checks
from django.core.management import call_command
from django.test import Client

call_command("makemigrations", "shop", verbosity=0)
assert [message for message in checks.run_checks() if message.id != "jobs.W001"] == []

web = Client(raise_request_exception=False, SERVER_NAME="localhost")
assert web.get("/shop/").content == b"open"
for path, status in (("/api/v1/nowhere", 404), ("/nowhere", 404), ("/api/v1/types", 401), ("/api/v1/jobs", 401)):
    answer = web.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json"), (path, answer.content)

from jobs import registry, wakeups
from project.celery import app
from shop.celery import app as theirs

assert "shop.report" in registry.names()
assert theirs.conf.broker_url == settings.SHOP_CELERY_BROKER_URL != wakeups.sender.conf.broker_url == settings.CELERY_BROKER_URL
assert current_app._get_current_object() is theirs
app.loader.import_default_modules()
for entry in app.conf.beat_schedule.values():
    assert entry["task"] in app.tasks, entry
"""


def block(file: str) -> str:
    found = re.search(rf"```python\n# {re.escape(file)}\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"the page has no {file}"
    return found[1]


@pytest.mark.usefixtures("db")
def test_the_project_of_the_page_starts_with_its_own_models_addresses_and_celery(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "__init__.py").touch()
    for name in FILES:
        (shop / f"{name}.py").write_text(block(f"shop/{name}.py") + (OPEN_TO_ALL if name == "settings" else ""))
    ran = subprocess.run(
        [sys.executable, "-c", IN_THE_PROJECT],
        check=False,  # the assertion shows its output
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "DJANGO_SETTINGS_MODULE": "shop.settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (shop / "migrations/0001_initial.py").exists()


@pytest.mark.django_db(transaction=True)
def test_the_periodic_job_is_one_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    ApiClient.objects.create(name="shop")
    written: dict[str, object] = {"__name__": "shop.job_types"}
    exec(block("shop/job_types.py"), written)
    exec(block("shop/periodic.py"), written)
    written["datetime"] = SimpleNamespace(now=lambda zone: datetime(2030, 1, 31, 3, tzinfo=zone))
    tick = written["nightly_report"]
    assert callable(tick)
    tick()
    tick()
    job = Job.objects.get()
    assert (job.type, job.client.name, job.params) == ("shop.report", "shop", {"day": "2030-01-31"})
