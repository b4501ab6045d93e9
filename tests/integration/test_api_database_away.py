"""A web process whose database is away: 503 for jobs, and alive all the same."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.in_process_api import STANDARD_MEMBERS
from tests.published_schema import must_be_published

CHECKOUT = Path(__file__).parents[2]

# Asks a web application of its own process, and prints the answers.
CALLER = """
import json, sys
import django
from django.conf import settings
django.setup()
settings.ALLOWED_HOSTS.append("testserver")
from django.test import Client
web, answers = Client(raise_request_exception=False), []
for method, address, body, client in json.load(sys.stdin):
    headers = {"Authorization": "Bearer some-key"}
    response = web.generic(method, address, body, "application/json", headers=headers, REMOTE_ADDR=client)
    answers.append({"status": response.status_code, "headers": dict(response.headers), "text": response.content.decode()})
json.dump(answers, sys.stdout)
"""
JOB = "/api/v1/jobs/0193e3a0-0000-7000-8000-000000000000"
LOCAL, ELSEWHERE = "127.0.0.1", "10.0.0.7"
ASKED = [
    ("POST", "/api/v1/jobs", '{"type": "probe.sleep", "params": {"seconds": 0}}', LOCAL),
    ("GET", JOB, "", LOCAL),
    ("DELETE", JOB, "", LOCAL),
    ("GET", "/api/v1/classes", "", LOCAL),
    ("GET", "/healthz", "", LOCAL),
    ("GET", "/readyz", "", LOCAL),
    ("GET", "/metrics", "", LOCAL),
    ("GET", "/metrics", "", ELSEWHERE),
]
NEED_THE_DATABASE = [
    f"POST /api/v1/jobs {LOCAL}",
    f"GET {JOB} {LOCAL}",
    f"DELETE {JOB} {LOCAL}",
    f"GET /api/v1/classes {LOCAL}",
    f"GET /metrics {ELSEWHERE}",
]


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, Any]]:
    """Address → answer, from a process whose DATABASE_URL leads to a port that refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # ours, and nobody listens on it
        url = f"postgresql://u:hidden@127.0.0.1:{taken.getsockname()[1]}/w"
        ran = subprocess.run(
            [sys.executable, "-c", CALLER],
            check=True,
            cwd=CHECKOUT,
            env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "project.settings"},
            input=json.dumps(ASKED),
            capture_output=True,
            text=True,
            timeout=120,
        )
    asked = [f"{method} {address} {client}" for method, address, _, client in ASKED]
    answered = dict(zip(asked, json.loads(ran.stdout), strict=True))
    for (method, path, _, _), answer in zip(ASKED, answered.values(), strict=True):
        must_be_published(method, path, answer["status"], answer["headers"], answer["text"].encode())
    answered["stderr"] = ran.stderr
    yield answered


@pytest.mark.parametrize("asked", NEED_THE_DATABASE)
def test_what_needs_the_database_is_503_and_may_be_tried_again(answers: dict[str, Any], asked: str) -> None:
    answer = answers[asked]
    body, headers = json.loads(answer["text"]), answer["headers"]
    assert (answer["status"], body["status"], body["code"], body["retryable"]) == (503, 503, "unavailable", True)
    assert body.keys() == STANDARD_MEMBERS
    assert (headers["Retry-After"], headers["Cache-Control"]) == ("5", "no-store")
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-Id"]


def test_the_process_still_says_that_it_lives(answers: dict[str, Any]) -> None:
    assert answers[f"GET /healthz {LOCAL}"]["status"] == 200


def test_it_says_that_it_cannot_accept_jobs(answers: dict[str, Any]) -> None:
    answer = answers[f"GET /readyz {LOCAL}"]
    assert (answer["status"], answer["headers"]["Retry-After"]) == (503, "5")
    assert json.loads(answer["text"]) == {"status": "unavailable", "database": "away"}


def test_metrics_show_counters_and_no_old_depth(answers: dict[str, Any]) -> None:
    answer = answers[f"GET /metrics {LOCAL}"]
    assert answer["status"] == 200
    assert 'jobs_admitted_total{cost_class="light"} 0.0' in answer["text"]
    assert "jobs_waiting{" not in answer["text"]


def test_neither_answers_nor_logs_hold_the_password_or_the_key(answers: dict[str, Any]) -> None:
    said = json.dumps(answers)
    assert "database_away" in answers["stderr"]  # it was logged
    assert "hidden" not in said
    assert "some-key" not in said
