"""A storm of callers on a real stack while nemeses act: whatever was promised to anybody held."""

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from stack.local import Stack
from tests.acceptance.times import DEFAULT, Times
from tests.history.nemesis import (
    KillChild,
    KillKeeper,
    KillParent,
    KillProgram,
    KillWebProcess,
    Nemesis,
    PauseNode,
    Terminate,
    afflicted,
    busy_by,
)
from tests.history.recorder import History
from tests.history.server_nemesis import POSTGRES, REDIS, FlushRedis, Restart, ServerNemesis, Stop, no_worker_restarts
from tests.history.storm import SUBMITTERS, Storm
from tests.history.watch import judged
from tests.waiting import eventually

FULL_ROUNDS = 3
# The kill of a web process cuts at most the submits in flight, one per thread: that must be well below one in a hundred.
ENOUGH_SUBMITS = 150 * SUBMITTERS


def few(history: History) -> list[Nemesis]:
    """One of each sort."""
    return [
        KillChild("worker-light", busy_by(history)),
        FlushRedis(),
        KillWebProcess(),
        KillKeeper("worker-light"),
        Restart(POSTGRES),
        PauseNode("worker-heavy"),
    ]


def all_of_them(history: History) -> list[Nemesis]:
    return [
        *few(history),
        KillChild("worker-heavy", busy_by(history)),
        KillParent("worker-heavy"),
        KillKeeper("worker-control"),
        KillProgram("web"),
        KillProgram("beat"),
        Terminate("worker-light", DEFAULT.stop_grace),
        Restart(REDIS),
        Stop(REDIS),
        PauseNode("worker-light"),
    ]


@pytest.fixture
def stormy(start_stack: Callable[..., Stack], times: Times) -> Stack:
    return start_stack(**times.environ)


@pytest.mark.timeout(3600)
def test_every_promise_holds_through_a_storm(stormy: Stack, history: History, times: Times, full: bool) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    nemeses = [nemesis for _ in range(FULL_ROUNDS) for nemesis in all_of_them(history)] if full else few(history)

    with Storm(stormy, history, seed) as storm:
        for nemesis in nemeses:
            before = len(storm.accepted)
            unharmed = no_worker_restarts(stormy) if isinstance(nemesis, ServerNemesis) else nullcontext()
            with unharmed, afflicted(history, stormy, nemesis):
                last(times.lease + 1 if isinstance(nemesis, PauseNode | Stop) else 0)
            eventually(lambda before=before: len(storm.accepted) > before, 30)  # type: ignore[misc]
        eventually(lambda: storm.submits >= ENOUGH_SUBMITS, 120)
    storm.drained()

    verdict = judged(history, stormy)
    print(f"seed {seed}: {verdict}")
    verdict.must_hold()
    counts = verdict.counts
    assert counts.foreign == 0
    assert counts.hits == Counter(nemesis.name for nemesis in nemeses)
    assert counts.accepted > 100
    assert counts.refused["queue_full"] > 0
    assert counts.killed_bodies > 0
    assert all(counts.cancels[status] > 0 for status in ("200", "202", "409")), counts.cancels


def last(seconds: float) -> None:
    """Let a nemesis last: a lease can only run out by time."""
    time.sleep(seconds)
