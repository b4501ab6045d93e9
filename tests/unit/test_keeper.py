"""What a keeper decides by itself, without a Celery."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

import workers.keeper
from jobs import classes
from workers.celery_fork import Fork
from workers.custody import SETTLING_SECONDS
from workers.keeper import Keeper
from workers.slots import OwnSlot


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper("light")
    yield keeper
    keeper.selector.close()
    for fd in (keeper.slots.fd, keeper.budget.fd):
        os.close(fd)


@pytest.mark.parametrize(
    ("settles", "after_grace", "over"),
    [
        (False, -1.0, False),
        (False, 0.1, True),
        (True, SETTLING_SECONDS - 1, False),
        (True, SETTLING_SECONDS + 0.1, True),
    ],
)
def test_a_keeper_that_stops_gives_a_settle_three_seconds_more(
    keeper: Keeper, settles: bool, after_grace: float, over: bool
) -> None:
    child = OwnSlot(keeper.slots)
    child.begin(1)
    if settles:
        child.settle()
    keeper.stop_by = time.monotonic() - after_grace
    assert keeper._patience_is_over() is over


def test_once_celery_is_being_ended_no_beat_takes_its_children_for_vanished(keeper: Keeper) -> None:
    """What they ran is released, without blame."""
    celery = Fork.of(lambda: time.sleep(60))
    keeper.custody = cast(Any, None)  # whoever looks now, fails
    keeper._end(celery)
    keeper._beat(celery)
    celery.wait()
    assert celery.poll() == -signal.SIGKILL


def test_no_connection_goes_into_celerys_process(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A team's app may have opened one as it was loaded."""
    done: list[str] = []
    monkeypatch.setattr(workers.keeper, "connections", SimpleNamespace(close_all=lambda: done.append("closed")))
    monkeypatch.setattr(Fork, "of", lambda act: done.append("forked"))
    keeper._start_celery()
    assert done == ["closed", "forked"]


def test_celerys_own_limit_stands_behind_every_other(keeper: Keeper) -> None:
    ceiling = classes.get("light").ceiling_seconds
    grace, lease = settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS, settings.WEIGHBRIDGE_LEASE_SECONDS
    assert keeper._last_fence_seconds() == ceiling + grace + 5 + lease + 1


def test_a_worker_says_that_it_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CommandError, match=r"^A worker runs on Linux only, and this is darwin"):
        call_command("worker", "light", skip_checks=True)


STARTED_BADLY = """
import signal, django
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.{hup})
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM, signal.SIGUSR2}})
django.setup()
from workers import strays
from workers.keeper import Keeper
strays.end_those_of_dead_keepers = strays.remove_folders_of_dead_keepers = strays.make_folder = lambda *_: None
keeper = Keeper("light")
keeper._become_keeper()
print(signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, signal.getsignal(signal.SIGHUP) == keeper._told_to_stop,
      signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


@pytest.mark.parametrize(("hup", "heeded"), [("SIG_DFL", True), ("SIG_IGN", False)], ids=["as usual", "by nohup"])
def test_a_worker_sees_its_children_end_and_hears_its_signals_however_it_was_started(hup: str, heeded: bool) -> None:
    program = [sys.executable, "-c", STARTED_BADLY.format(hup=hup)]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == f"True {heeded} set()"
