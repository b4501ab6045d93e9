"""The processes of a running stack: a worker's keeper, parent and children; those that serve requests."""

from dataclasses import dataclass
from pathlib import Path

import psycopg

from stack.failures import StackError
from stack.local import Stack
from tests.processes import with_descendants
from tests.waiting import eventually

READY_SECONDS = 90.0  # for all that was killed to be back, on a machine that has much to do
DEFAULT_WEB_PROCESSES = 2


@dataclass(frozen=True)
class Node:
    """A worker's processes now."""

    keeper: int
    parent: int
    children: tuple[int, ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(with_descendants(self.keeper))


def node(stack: Stack, program: str) -> Node:
    """Waits for one that has its pool."""
    found = eventually(lambda: _node(_main_pid(stack, program)), READY_SECONDS)
    assert found is not None
    return found


def _node(keeper: int) -> Node | None:
    for parent in _direct_children(keeper):
        children = tuple(_direct_children(parent))
        if _name(parent) == "celery" and children:
            return Node(keeper, parent, children)
    return None


def _direct_children(pid: int) -> list[int]:
    return [child for child in with_descendants(pid)[1:] if _parent_of(child) == pid]


def _parent_of(pid: int) -> int:
    return int((_stat(pid) or ["", "0"])[1])


def state_of(pid: int) -> str:
    return (_stat(pid) or ["gone"])[0]


def _name(pid: int) -> str:
    """As lists of processes show it; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command(pid: int) -> bytes:
    """The words of the command line, each ended by NUL; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    """The fields after the name: state, parent, …; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def wait_until_back(stack: Stack, program: str) -> None:
    """Every slot has its process, and the node beats. (A dead node's slots still count for three beats.)"""
    eventually(lambda: _is_whole(stack, program), READY_SECONDS)
    stack.wait_ready(READY_SECONDS)


def _is_whole(stack: Stack, program: str) -> bool:
    found = _node(_main_pid(stack, program))
    return found is not None and len(found.children) == _slots_that_beat(stack, found.keeper)


def slots(stack: Stack, program: str) -> int:
    """How many children the node is to have. Waits for it to beat."""
    found = eventually(lambda: _slots_that_beat(stack, _main_pid(stack, program)), READY_SECONDS)
    assert found is not None
    return found


def _slots_that_beat(stack: Stack, keeper: int) -> int | None:
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(_SLOTS_THAT_BEAT, [keeper]).fetchone()
        return row[0] if row else None


_SLOTS_THAT_BEAT = (
    "SELECT processes FROM jobs_workernode WHERE pid = %s AND stopped_at IS NULL AND seen_at > now() - interval '2 s'"
)


def _main_pid(stack: Stack, program: str) -> int:
    """0 while it is down."""
    try:
        return stack.pid(program)
    except StackError:
        return 0


def serving(stack: Stack) -> list[int]:
    """The processes that answer requests."""
    return [pid for pid in _direct_children(_main_pid(stack, "web")) if b"granian" in _command(pid)]


def web_processes(stack: Stack) -> int:
    """How many there should be."""
    return int(stack.environment.get("WEIGHBRIDGE_WEB_PROCESSES", DEFAULT_WEB_PROCESSES))
