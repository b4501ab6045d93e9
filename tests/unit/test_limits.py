"""Limits in the child: each case is a real process with real signals and the real watchdog (P19, P21)."""

import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

GRACE = 0.5

CHILD = """
import os, signal, sys, time
from workers.failures import JobCancelled, JobTimeout
from workers.limits import Limits
from workers.slots import OwnSlot, SharedSlots

shared = SharedSlots.create(1)
slot = OwnSlot(shared)
traces = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
limits = Limits(slot, traces, {grace})
slot.begin(7)

def cancel_from_outside():
    shared.ask_to_cancel(next(shared.all()))
    os.kill(os.getpid(), signal.SIGUSR2)

{body}
"""


def _run(
    tmp_path: Path, body: str, grace_seconds: float = GRACE
) -> tuple[subprocess.CompletedProcess[str], str, float]:
    """The finished child, its trace, and how many seconds it took beyond its own start."""
    trace = tmp_path / "trace"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(grace=grace_seconds, body=textwrap.dedent(body)), str(trace)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done, trace.read_text(), time.monotonic() - began


def test_a_handler_is_told_at_its_limit(tmp_path: Path) -> None:
    done, trace, _ = _run(
        tmp_path,
        """
        limits.arm(0.2)
        try:
            limits.inside(lambda: time.sleep(30))
        except JobTimeout:
            print("told")
        limits.disarm()
        """,
    )
    assert (done.returncode, done.stdout, trace) == (0, "told\n", "")


STUBBORN = {
    "swallows everything": """
        def body():
            while True:
                try:
                    time.sleep(30)
                except BaseException:
                    pass
        """,
    "loops in Python and swallows": """
        def spin():
            while True: pass
        def body():
            while True:
                try: spin()
                except BaseException: pass
        """,
    "holds the GIL in C": """
        import itertools
        def body(): sum(itertools.repeat(1, 10**12))
        """,
}


@pytest.mark.parametrize("body", STUBBORN.values(), ids=STUBBORN)
def test_a_handler_that_does_not_listen_ends_after_the_grace_and_leaves_its_trace(tmp_path: Path, body: str) -> None:
    done, trace, _ = _run(tmp_path, textwrap.dedent(body) + "\nlimits.arm(0.2)\nlimits.inside(body)\nprint('went on')")
    assert done.returncode == 1
    assert "went on" not in done.stdout
    assert "in body" in trace
    assert re.search(r"Timeout \(0:00:00\.7", trace)


def test_a_cancel_is_acknowledged_and_raised(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        limits.arm(20)
        try:
            limits.inside(cancel_from_outside)
        except JobCancelled:
            print("cancelled", shared.has_acknowledged(next(shared.all())))
        """,
    )
    assert done.stdout == "cancelled True\n"


def test_a_cancel_that_is_swallowed_ends_by_the_watchdog(tmp_path: Path) -> None:
    done, trace, seconds = _run(
        tmp_path,
        """
        def body():
            try: cancel_from_outside()
            except BaseException: pass
            time.sleep(30)
        limits.arm(20)
        limits.inside(body)
        """,
    )
    assert done.returncode == 1
    assert "in body" in trace
    assert seconds < 20


def test_a_cancel_before_the_handler_begins_is_raised_when_it_does(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        cancel_from_outside()
        limits.arm(20)
        try:
            limits.inside(lambda: print("ran"))
        except JobCancelled:
            print("cancelled")
        """,
    )
    assert done.stdout == "cancelled\n"


def test_a_signal_meant_for_another_attempt_does_nothing(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        def late():
            seen = next(shared.all())
            slot.clear(); slot.begin(8)
            shared.ask_to_cancel(seen)
            os.kill(os.getpid(), signal.SIGUSR2)
        limits.arm(20)
        limits.inside(late)
        limits.disarm()
        print("unharmed", limits.fired)
        """,
    )
    assert done.stdout == "unharmed None\n"


def test_after_it_is_disarmed_nothing_fires(tmp_path: Path) -> None:
    done, trace, _ = _run(
        tmp_path,
        """
        limits.arm(0.1)
        limits.inside(lambda: None)
        limits.disarm()
        time.sleep(1.0)  # longer than limit and grace
        print("alive", limits.fired)
        """,
    )
    assert (done.returncode, done.stdout, trace) == (0, "alive None\n", "")


def test_the_limit_of_one_attempt_does_not_reach_into_the_next(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        for limit in (0.3, 20):
            limits.arm(limit)
            limits.inside(lambda: time.sleep(0.2))
            limits.disarm()
        limits.arm(20)
        limits.inside(lambda: time.sleep(0.5))
        print("done", limits.fired)
        """,
    )
    assert done.stdout == "done None\n"


def test_a_loop_of_its_own_is_cancelled_too(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        import asyncio
        async def handler():
            try:
                await asyncio.sleep(30)
            finally:
                print("cleaned up")
        limits.arm(0.2)
        try:
            limits.inside(lambda: asyncio.run(handler()))
        except JobTimeout:
            print("told")
        """,
    )
    assert done.stdout == "cleaned up\ntold\n"


def test_a_signal_that_kept_the_handlers_end_from_being_noted_cannot_raise_outside_it(tmp_path: Path) -> None:
    """It came between the handler's last step and the note, so the note is missing."""
    done, _, _ = _run(
        tmp_path,
        """
        limits.arm(20)
        limits.inside(lambda: None)
        limits._inside = True
        limits.disarm()
        os.kill(os.getpid(), signal.SIGALRM)
        limits._inside = True
        limits.arm(20)
        os.kill(os.getpid(), signal.SIGALRM)
        print("noted", limits.fired.__name__)
        """,
    )
    assert done.stdout == "noted JobTimeout\n", done.stderr


def test_wherever_the_limit_falls_nothing_is_raised_outside_the_handler(tmp_path: Path) -> None:
    """A thousand limits around the end of a handler that takes as long: some in it, some just behind it."""
    done, _, _ = _run(
        tmp_path,
        """
        def body(seconds):
            until = time.perf_counter() + seconds
            while time.perf_counter() < until: pass
        told = 0
        for n in range(1000):
            limits.arm(0.001)
            try:
                limits.inside(lambda: body(0.0009 + n % 20 * 0.00001))
            except JobTimeout:
                told += 1
            limits.disarm()
            assert not limits._inside
            for _ in range(3): os.kill(os.getpid(), signal.SIGALRM)
        print(told, 0 < told < 1000)
        """,
    )
    assert done.stdout.endswith("True\n"), (done.stdout, done.stderr[-500:])


def test_a_cancel_that_comes_after_the_body_sets_no_watchdog_for_the_next(tmp_path: Path) -> None:
    """It is late by the clearing up and the settle; their end, or the job after it, is not to be cut off for it."""
    done, trace, _ = _run(
        tmp_path,
        """
        limits.arm(10)
        limits.inside(lambda: None)
        limits.disarm()
        cancel_from_outside()
        slot.clear()
        slot.begin(8)
        time.sleep({grace} * 3)
        print("lives")
        """.replace("{grace}", str(GRACE)),
    )
    assert (done.returncode, done.stdout, trace) == (0, "lives\n", "")


def test_a_cancel_in_the_grace_of_the_limit_does_not_make_it_longer(tmp_path: Path) -> None:
    done, _, _ = _run(
        tmp_path,
        """
        def body():
            began = time.monotonic()
            print(began, flush=True)
            told = False
            while True:
                try:
                    time.sleep(0.05)
                    if not told and time.monotonic() - began > 2.0:
                        told = True
                        cancel_from_outside()
                except BaseException:
                    pass
        limits.arm(0.1)
        limits.inside(body)
        """,
        grace_seconds=3.0,
    )
    lasted = time.monotonic() - float(done.stdout)
    assert done.returncode == 1
    assert 3.0 <= lasted < 4.5  # 0.1 + 3; with a grace of its own for the cancel it would be 5
