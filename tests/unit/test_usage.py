"""What one attempt used, as the kernel tells it."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

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


def test_a_process_is_told_by_its_start_whatever_it_is_called(tmp_path: Path) -> None:
    """The command stands in brackets in /proc/<pid>/stat and may itself hold brackets and spaces."""
    odd = tmp_path / "a) R 1 2 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", odd)
    ticks = os.sysconf("SC_CLK_TCK")
    earliest = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen([odd, "60"]) as process:
        latest = time.clock_gettime(time.CLOCK_BOOTTIME)
        started = usage.process_started(process.pid)
        process.kill()
    assert earliest * ticks - 2 <= started <= latest * ticks + 2


def test_this_process_knows_itself() -> None:
    assert usage.myself() == (os.getpid(), usage.process_started(os.getpid()))


def test_a_process_that_is_gone_has_no_start() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(OSError, match=str(process.pid)):
        usage.process_started(process.pid)
