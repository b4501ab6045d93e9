"""The database as handlers see it: connections of their own, closed after each attempt that used them.

A handler may change what a connection looks like: its search path, its time-outs, a temporary table, a transaction
left open, the connection closed. On a connection that the runner shares all that would meet the settle, and
every job after it. So the runner keeps the one it claims and settles on (P34) out of the handler's reach.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def own_connections() -> Iterator[None]:
    """While it is entered, all connections and the ORM in this thread are the handler's. Each connects at its first query."""
    runners = {alias: connections[alias] for alias in connections}
    handlers = {alias: connections.create_connection(alias) for alias in runners}
    _take(handlers)
    try:
        yield
    finally:
        _take(runners)
        for one in handlers.values():
            one.in_atomic_block = False  # a transaction that was left open ends with its connection
            one.close()


def _take(ours: dict[str, Any]) -> None:
    for alias, one in ours.items():
        connections[alias] = one
