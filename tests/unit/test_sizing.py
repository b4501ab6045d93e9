"""How many processes memory and cores allow: vectors, and both sides of the edge."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers import sizing
from workers.sizing import Memory, processes_for_cores, usable_memory_mib


@pytest.mark.parametrize(
    ("limit", "parent", "child", "processes"), [(2048, 180, 220, 7), (4096, 180, 1400, 2), (2048, 180, 1560.8, 1)]
)
def test_memory_less_headroom_and_parent_is_shared_by_the_processes(
    limit: float, parent: float, child: float, processes: int
) -> None:
    assert Memory(limit, child, parent, headroom=0.15).processes == processes


def test_too_little_memory_for_one_is_none() -> None:
    assert Memory(2048, 1561).processes == 0
    assert Memory(100, 1).processes == 0


@given(st.floats(256, 1e6), st.floats(1, 1e5))
def test_what_fits_fits_and_one_more_would_not(limit: float, child: float) -> None:
    memory = Memory(limit, child)
    room = limit * (1 - memory.headroom) - memory.parent_mib
    assert memory.processes * child <= max(0.0, room) * (1 + 1e-12)
    assert (memory.processes + 1) * child > room * (1 - 1e-12)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf])
def test_no_memory_and_no_number_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="limit_mib is .* must be a number of MiB above 0"):
        Memory(wrong, 220)
    with pytest.raises(ValueError, match="child_mib is .* must be a number of MiB above 0"):
        Memory(2048, wrong)


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (3, 2), (64, 63)])
def test_the_web_keeps_a_core_if_there_are_two(cores: int, processes: int) -> None:
    assert processes_for_cores(cores) == processes


@pytest.mark.parametrize(("said", "mib"), [("536870912\n", 512.0), ("max\n", None), (None, None), (str(2**60), None)])
def test_a_container_has_the_memory_that_it_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, mib: float | None
) -> None:
    machine = next(
        int(line.split()[1]) / 1024 for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    if said is not None:
        (tmp_path / "memory.max").write_text(said)
    monkeypatch.setattr(sizing, "MEMORY_MAX", tmp_path / "memory.max")
    assert usable_memory_mib() == pytest.approx(machine if mib is None else mib)
