"""What one attempt used, as the kernel tells it."""

import os
import subprocess
import sys
import time

import pytest

from workers import usage

MIB = 1024 * 1024


def test_cpu_time_of_this_process_is_counted() -> None:
    meter = usage.Meter()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    used = meter.read()
    assert used.cpu_seconds >= 0.05
    assert used.run_seconds >= 0.05 * 0.9  # two clocks, nearly one time


def test_a_sleep_takes_time_and_next_to_no_cpu() -> None:
    meter = usage.Meter()
    time.sleep(0.2)
    used = meter.read()
    assert used.run_seconds >= 0.2
    assert used.cpu_seconds < 0.1


def test_cpu_time_of_a_child_process_is_counted() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    meter = usage.Meter()
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    assert meter.read().cpu_seconds >= 0.2 * 0.9


def test_the_peak_is_that_of_the_attempt_and_not_of_the_one_before() -> None:
    before = usage.Meter().read().peak_rss_bytes
    meter = usage.Meter()
    block = bytearray(os.urandom(1)) * (128 * MIB)
    del block
    during = meter.read().peak_rss_bytes
    after = usage.Meter().read().peak_rss_bytes
    assert before is not None
    assert during is not None
    assert after is not None
    assert during >= before + 120 * MIB
    assert after <= during - 100 * MIB


def test_what_another_process_has_used_since_is_seen_from_outside() -> None:
    """As its keeper sees it, for the time when it cannot tell any more."""
    burn = "import time\nblock = bytearray(b'x') * (64 << 20)\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-S", "-c", burn], stdin=-1, stdout=-1) as process:
        assert process.stdout
        process.stdout.readline()
        all_of_it = usage.so_far(process.pid, 0.0)
        the_rest = usage.so_far(process.pid, 0.2)
        assert all_of_it is not None
        assert the_rest is not None
        assert all_of_it.cpu_seconds >= 0.3 * 0.9
        assert the_rest.cpu_seconds == pytest.approx(all_of_it.cpu_seconds - 0.2, abs=0.05)
        assert all_of_it.peak_rss_bytes is not None
        assert all_of_it.peak_rss_bytes >= 64 * MIB
        process.communicate(b"\n")
    assert usage.so_far(process.pid, 0.0) is None
