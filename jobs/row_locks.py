"""Changes that do not wait for a row that somebody holds: a keeper has other leases to look after (P16), a sweep other jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import LockNotAvailable

PATIENCE_SECONDS = 1.0  # of somebody who waits for an answer; a settle holds its row for milliseconds


class RowHeld(Exception):
    """Somebody's transaction holds the row; nothing was changed."""


@contextmanager
def not_waiting(seconds: float = 0.1) -> Iterator[None]:
    """Around one change. Raises RowHeld when it would wait for longer; by default for longer than a statement takes."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                # Of this transaction alone, so pgbouncer may be there (P35).
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{round(seconds * 1000)}ms"])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise RowHeld from error
        raise
