"""Servers by URL: whether they answer, said without their passwords."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from jobs import server_urls
from jobs.ranges import WrongSetting
from stack.failures import StackError

CONNECT_TIMEOUT_SECONDS = 3.0
DEFAULT_PORTS = {"DATABASE_URL": 5432, "REDIS_URL": 6379}
PRODUCTS = {"DATABASE_URL": "PostgreSQL", "REDIS_URL": "Redis"}


def must_answer(variable: str, url: str) -> None:
    """Raises StackError when nothing listens at the URL that `variable` (DATABASE_URL or REDIS_URL) gives."""
    host, port = _host_and_port(variable, url)
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise StackError(
            f"{PRODUCTS[variable]} at {host}:{port} ({variable}) does not answer: {_reason(error)}."
        ) from None


def _host_and_port(variable: str, url: str) -> tuple[str, int]:
    try:
        parts = server_urls.parts_of(variable, url)
    except WrongSetting as error:
        raise StackError(str(error)) from None
    return parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORTS[variable]


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_TIMEOUT_SECONDS:.0f} s"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    return os.strerror(error.errno).lower() if error.errno else str(error)


def redis_must_talk(url: str) -> None:
    """Raises StackError when the Redis at REDIS_URL refuses us (a wrong password, say)."""
    host, port = _host_and_port("REDIS_URL", url)
    error = redis_trouble(url)
    if error:
        raise StackError(f"Redis at {host}:{port} (REDIS_URL) refuses us: {error}.")


def redis_trouble(url: str) -> str | None:
    """Why a PING is not answered, or None when it is."""
    import redis

    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=CONNECT_TIMEOUT_SECONDS, socket_timeout=CONNECT_TIMEOUT_SECONDS
        ) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return _one_line(error)
    return None


def postgres_trouble(url: str) -> str | None:
    """Why a connection is refused, or None when one could be made."""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=int(CONNECT_TIMEOUT_SECONDS)).close()
    except psycopg.Error as error:
        return _one_line(error)
    return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def wait_until_well(trouble: Callable[[], str | None], timeout_seconds: float) -> str | None:
    """Ask until there is no trouble; the last trouble when the time is up."""
    until = time.monotonic() + timeout_seconds
    while (found := trouble()) is not None and time.monotonic() < until:
        time.sleep(0.05)
    return found
