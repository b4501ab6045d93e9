"""A stack asks its settings what must run in a process of its own, which loads Django: 1.5 s of CPU at each start.

Stacks of one session that differ only in their folder are told what the first of them was. Wrong settings are never kept.
"""

from jobs.secret_files import kept_secret
from stack.local import Stack
from stack.programs import Plan

_read = Stack._read_plan
_kept: dict[tuple[tuple[str, str], ...], Plan] = {}


def install() -> None:
    """From here on in this process."""
    setattr(Stack, "_read_plan", _once)  # noqa: B010  a method, to mypy, is not assigned to


def _once(stack: Stack) -> Plan:
    folder = str(stack.data_dir)
    asked = tuple(sorted((name, value.replace(folder, "")) for name, value in stack.environment.items()))
    if asked not in _kept:
        _kept[asked] = _read(stack)
    kept_secret(stack.data_dir / "secret-key", size_bytes=48)  # made by whoever reads the settings first
    return _kept[asked]
