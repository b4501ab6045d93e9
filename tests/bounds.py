"""A pytest plugin: no test lasts for ever, whatever it hangs in.

pytest-timeout rings once. What hangs after that (in the end of a fixture, say), or what took its alarm for something
else, is ended here together with its process, and says where it stood.
"""

import faulthandler
import os
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

EXTRA_SECONDS = 120.0  # for what follows the alarm: the stop of a stack takes its longest grace
_console = os.dup(2)  # while a test runs, 2 is captured
_until: float | None = None


def pytest_configure(config: pytest.Config) -> None:
    threading.Thread(target=_look_after, name="bounds", daemon=True).start()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Beside what pytest-timeout itself sets: its marker, option and so on have been read, and there is a time-out."""
    global _until
    _until = time.monotonic() + settings.timeout + EXTRA_SECONDS
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        _no_bound()


def pytest_enter_pdb() -> None:
    _no_bound()


def _no_bound() -> None:
    global _until
    _until = None


def _look_after() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the tests
    while True:
        time.sleep(1.0)
        until = _until
        if until is not None and time.monotonic() > until:
            os.write(_console, b"\nA test goes on long after its time-out; its process is ended. It stands here:\n")
            faulthandler.dump_traceback(_console)
            os._exit(70)
