"""What becomes a line of the log, and what does not."""

import json
import subprocess
import sys

SAY = """
import logging
from project import logs
logs.configure("INFO")
for status in (404, 500, 503):
    logging.getLogger("django.request").error("answered %s", status, extra={"status_code": status})
"""


def test_an_answer_that_says_come_again_is_no_event_and_a_fault_is() -> None:
    ran = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True, timeout=60, check=True)
    assert [json.loads(line)["event"] for line in ran.stderr.splitlines()] == ["answered 404", "answered 500"]


SAY_WHAT_CALLERS_WROTE = """
import logging
from project import logs
logs.configure("DEBUG")
for name in ("django.security.DisallowedHost", "django.security.csrf"):
    logging.getLogger(name).error("xyzzy")
"""


def test_what_django_would_write_down_of_a_callers_own_words_is_no_event() -> None:
    command = [sys.executable, "-c", SAY_WHAT_CALLERS_WROTE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == ""
