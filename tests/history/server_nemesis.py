"""What may befall the servers of a stack: restarted, stopped, frozen; Redis flushed, connections to PostgreSQL cut."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import redis

from stack.addresses import postgres_trouble, redis_trouble
from stack.local import Stack
from tests.history.nemesis import EFFECT_SECONDS, STILL, Nemesis, signal_all
from tests.history.nodes import READY_SECONDS, state_of
from tests.processes import with_descendants
from tests.waiting import eventually

REDIS, POSTGRES = "valkey", "postgres"


@contextmanager
def no_worker_restarts(stack: Stack) -> Iterator[None]:
    """A server that goes away is no reason for a worker to end (P24)."""
    before = _workers(stack)
    yield
    ended = {program: pid for program, pid in before.items() if _workers(stack).get(program) != pid}
    assert not ended, f"these workers ended because a server was away: {ended}"


def _workers(stack: Stack) -> dict[str, int]:
    return {program: stack.pid(program) for program in stack.programs() if program.startswith("worker-")}


class ServerNemesis(Nemesis):
    server: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        """None of the stack's own processes is hit: what they run is not to suffer."""
        return ()

    def _trouble(self, stack: Stack) -> str | None:
        return redis_trouble(stack.redis_url) if self.server == REDIS else postgres_trouble(stack.database_url)


@dataclass(frozen=True)
class Restart(ServerNemesis):
    """An orderly stop and a start right after it."""

    act = "restart"
    server: str

    @property
    def name(self) -> str:
        return f"Restart-{self.server}"

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        before = stack.pid(self.server)
        stack.restart_program(self.server)
        eventually(lambda: self._trouble(stack) is None, EFFECT_SECONDS)
        after = stack.pid(self.server)
        assert after != before, f"{self.server} is still process {before}"
        return f"{self.server} was process {before} and is {after}"


@dataclass(frozen=True)
class Stop(ServerNemesis):
    """Away until it is undone."""

    act = "stop"
    server: str
    back_seconds: float = READY_SECONDS

    @property
    def name(self) -> str:
        return f"Stop-{self.server}"

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        stack.stop_program(self.server)
        trouble = self._trouble(stack)
        assert trouble is not None, f"{self.server} still answers"
        return trouble

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:
        stack.start_program(self.server)
        eventually(lambda: self._trouble(stack) is None, EFFECT_SECONDS)


@dataclass(frozen=True)
class Freeze(ServerNemesis):
    """It stands still until it is undone: what it was asked it does not answer."""

    act = "pause"
    server: str
    back_seconds: float = READY_SECONDS

    @property
    def name(self) -> str:
        return f"Freeze-{self.server}"

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        server = with_descendants(stack.pid(self.server))  # PostgreSQL has a process for each connection
        signal_all(server, signal.SIGSTOP)
        eventually(lambda: all(state_of(pid) in STILL for pid in server), EFFECT_SECONDS)
        return f"{self.server} stands still"

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:
        signal_all(with_descendants(stack.pid(self.server)), signal.SIGCONT)


@dataclass(frozen=True)
class CutConnections(ServerNemesis):
    """Every connection to the database is ended by its server."""

    act = "cut"
    server = POSTGRES

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        with psycopg.connect(stack.database_url, autocommit=True) as connection:
            cut = connection.execute(_CUT).fetchall()
        assert cut, "there was no connection"
        return f"{len(cut)} connections were cut"


_CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
"""


@dataclass(frozen=True)
class FlushRedis(ServerNemesis):
    """FLUSHALL: every wake-up, and what Celery itself keeps there, is gone."""

    act = "flush"
    server = REDIS

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        with redis.Redis.from_url(stack.redis_url) as client:
            client.set("tests:sentinel", "here")
            held = client.dbsize()
            client.flushall()
            assert client.get("tests:sentinel") is None, "the sentinel survived"
        return f"{held} keys are gone"
