"""The database as handlers see it: connections of their own, closed after each attempt that used them.

A handler may change what a connection looks like: its search path, its time-outs, a temporary table, a transaction
left open, the connection closed. On a connection that the runner shares all that would meet the settle, and
every job after it. So the runner keeps the one it claims and settles on (P34) out of the handler's reach.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections


@contextmanager
def own_connection() -> Iterator[None]:
    """While it is entered, `connection` and the ORM in this thread are the handler's. It connects at the first query."""
    runners = connections[DEFAULT_DB_ALIAS]
    handlers = connections.create_connection(DEFAULT_DB_ALIAS)
    connections[DEFAULT_DB_ALIAS] = handlers
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = runners
        handlers.in_atomic_block = False  # a transaction that was left open ends with its connection
        handlers.close()
