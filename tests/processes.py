"""Processes as the kernel shows them: who lives, who is whose child, who belongs to a stack."""

import os
from pathlib import Path


def lives(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def with_descendants(pid: int) -> list[int]:
    """The process itself first, then its children, theirs, and so on."""
    found = [pid]
    for parent in found:
        found += [child for child in _children_of(parent) if child not in found]
    return found


def _children_of(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [int(c) for t in threads for c in Path(f"/proc/{pid}/task/{t}/children").read_text().split()]
    except OSError:
        return []


def that_know(directory: Path) -> dict[int, str]:
    """Every process, but our own, that names the directory in its environment or on its command line."""
    name, found = os.fsencode(directory), {}
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        if pid != os.getpid() and lives(pid) and name in _told(pid):
            found[pid] = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
    return found


def _told(pid: int) -> bytes:
    return _read(pid, "environ") + _read(pid, "cmdline")


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
