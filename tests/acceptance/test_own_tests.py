"""Tests of a team's own, which lie elsewhere, run as the docs say: with nothing running, on servers that are theirs."""

import os
import subprocess
from pathlib import Path

from stack.programs import ROOT

OWN = """
import pytest
from jobs.models import ApiClient

@pytest.mark.django_db
def test_there_is_a_database():
    ApiClient.objects.create(name="theirs")
"""
OURS = ("WEIGHBRIDGE_", "DJANGO_", "PYTEST_", "DATABASE_URL", "REDIS_URL")  # of this session


def test_tests_that_lie_elsewhere_get_servers_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(OWN)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    ran = subprocess.run(
        [str(ROOT / "bin/test"), str(tmp_path / "test_orders.py"), "-q"],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "1 passed" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-2000:]
