"""A stack in the foreground: started, worked with, kept up, and stopped in order, whatever happens. For bin/up and bin/demo."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from stack.failures import StackError
from stack.local import Stack
from stack.programs import ROOT
from stack.signals import StopRequested, StopSignals

LOOK_SECONDS = 1.0


def in_foreground(work: Callable[[Stack], int], when_stopped: int) -> int:
    """Do `work`, which starts the stack that it is given, and stop that stack; the exit code.

    It is what `work` returns, or `when_stopped` after Ctrl-C or TERM, or 1 after a StackError, whose sentence is printed.
    """
    signals = StopSignals()
    signals.install()
    stack = Stack(data_dir_of(os.environ.get("WEIGHBRIDGE_DATA_DIR")), say=tell, hurry=signals.hurry)
    try:
        return work(stack)
    except StopRequested:
        return when_stopped
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        signals.begin_stopping()
        stack.stop()


def data_dir_of(given: str | None) -> Path:
    """WEIGHBRIDGE_DATA_DIR, relative to the checkout; `.data` unless set.

    As project.env.data_dir reads it; to import that would load Celery and Django into the launcher.
    """
    return ROOT / (given or ".data")


def keep_up(stack: Stack, look: Callable[[], None] | None = None) -> NoReturn:
    """Watch the stack, and `look` if given, once a second until a signal (StopRequested) or the end of the process manager."""
    while True:
        stack.watch()
        if look:
            look()
        time.sleep(LOOK_SECONDS)


def where_to_look(stack: Stack) -> list[str]:
    folder = stack.data_dir
    rows = [
        ("jobs", f"{stack.url}/api/v1/jobs   (key in {folder / 'demo-key'})"),
        ("docs", f"{stack.url}/api/docs/"),
        ("admin", f"{stack.url}/admin/   {_admin_account(folder / 'admin-password')}".rstrip()),
        ("Flower", f"http://127.0.0.1:{stack.flower_port}   (user admin, password in {folder / 'flower-password'})"),
        ("metrics", f"{stack.url}/metrics"),
        ("logs", f"{folder / 'logs'}"),
    ]
    return [f"  {name:<8} {place}" for name, place in rows]


def _admin_account(password_file: Path) -> str:
    """Nothing when the account is a team's own (see `manage.py demo_access`)."""
    return f"(user admin, password in {password_file})" if password_file.exists() else ""


def tell(sentence: str) -> None:
    """Progress goes to standard error: standard output holds the ready line and where to look."""
    print(sentence, file=sys.stderr, flush=True)
