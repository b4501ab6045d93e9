"""Changes that do not wait for a row that somebody holds: a keeper has other leases to look after (P16), a sweep other jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import LockNotAvailable


class RowHeld(Exception):
    """Somebody's transaction holds the row; nothing was changed."""


@contextmanager
def not_waiting() -> Iterator[None]:
    """Around one change. Raises RowHeld when it would wait longer than a statement takes."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET LOCAL lock_timeout = '100ms'"
                )  # of this transaction alone, so pgbouncer may be there (P35)
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise RowHeld from error
        raise
