"""Usable cores: what the scheduler's mask allows, cut by the cgroup's quota, never less than one."""

import os
from pathlib import Path

import pytest

from jobs import cores


@pytest.mark.parametrize(
    ("quota", "mask", "usable"),
    [
        ("max 100000\n", 8, 8),
        ("200000 100000\n", 8, 2),
        ("200001 100000\n", 8, 3),  # part of a core is a core
        ("50000 100000\n", 8, 1),
        ("400000 100000\n", 3, 3),  # the smaller of the two
        ("25000 50000\n", 8, 1),
        ("150000", 8, 2),  # a line without its period has the kernel's default
    ],
)
def test_the_smaller_of_mask_and_quota_counts(
    quota: str, mask: int, usable: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    monkeypatch.setattr(cores, "CPU_MAX", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(mask)))
    assert cores.usable_cores() == usable


def test_without_a_cgroup_file_the_mask_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "CPU_MAX", tmp_path / "absent")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5})
    assert cores.usable_cores() == 3
