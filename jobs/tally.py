"""What the door answered: into the metrics at once, and by the minute into the database, for operators who look back.

A refusal writes nothing (P7), so minutes are counted in memory and written together by a thread of their own, a few seconds later. They
are figures to look at: a process that is killed takes its last seconds with it.
"""

import atexit
import json
import threading
from collections import Counter

import structlog
from django.db import connection
from django.db.utils import DatabaseError, InterfaceError

from jobs import telemetry

log = structlog.get_logger(__name__)

WRITTEN_AFTER_SECONDS = 5.0  # so a minute is right to within five seconds


def admitted(cost_class: str) -> None:
    telemetry.ADMITTED.labels(cost_class).inc()
    _PENDING.count(cost_class, "admitted", 1)


def refused(cost_class: str, reason: str, jobs: int = 1) -> None:
    telemetry.REJECTED.labels(cost_class, reason).inc(jobs)
    _PENDING.count(cost_class, f"refused {reason}", jobs)


def returned(cost_class: str, admitted: bool) -> None:
    """A caller that was refused came back when it had been told to (P10)."""
    telemetry.RETURNED.labels(cost_class, str(admitted).lower()).inc()
    _PENDING.count(cost_class, "returned", 1)
    if admitted:
        _PENDING.count(cost_class, "returned_admitted", 1)


class Pending:
    """Counts of this process that are not written yet, by class and what was counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._timer: threading.Timer | None = None

    def count(self, cost_class: str, what: str, by: int) -> None:
        with self._lock:
            self._counts[cost_class, what] += by
            if self._timer is None:
                self._timer = threading.Timer(WRITTEN_AFTER_SECONDS, self._write_on_time)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Add them to this minute's rows. While the database is away they stay."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not counts:
            return
        try:
            _write(counts)
        except (DatabaseError, InterfaceError) as error:
            log.warning("minutes_not_written", error=type(error).__name__)
            with self._lock:
                self._counts.update(counts)

    def forget(self) -> None:
        with self._lock:
            self._counts.clear()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _write_on_time(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.write()
        finally:
            connection.close()  # this thread's own

    def write_now(self) -> None:
        """What is due in a while, here and now, and the thread that would write it is gone: for a process that is to be as it was."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join(1.0)
            self.write()

    def at_exit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._write_on_time()


_PENDING = Pending()
atexit.register(_PENDING.at_exit)
write, write_now, forget = _PENDING.write, _PENDING.write_now, _PENDING.forget


def _write(counts: Counter[tuple[str, str]]) -> None:
    """What is written is taken out of the counts: it is not to be written again if the rest fails."""
    with connection.cursor() as cursor:
        for cost_class in sorted({name for name, _ in counts}):  # so that two processes do not wait for each other
            of_class = {what: number for (name, what), number in counts.items() if name == cost_class}
            reasons = {what.split()[1]: number for what, number in of_class.items() if what.startswith("refused ")}
            counted = {what: of_class.get(what, 0) for what in ("admitted", "returned", "returned_admitted")}
            cursor.execute(_ADD, {"cost_class": cost_class, "refused": json.dumps(reasons), **counted})
            for what in of_class:
                del counts[cost_class, what]


# By hand: counts are added to those of other processes in one statement, those by reason too.
_ADD = """
INSERT INTO jobs_classminute AS minute (cost_class, minute, admitted, refused, returned, returned_admitted)
VALUES (%(cost_class)s, date_trunc('minute', statement_timestamp()), %(admitted)s, %(refused)s, %(returned)s, %(returned_admitted)s)
ON CONFLICT (minute, cost_class) DO UPDATE SET
    admitted = minute.admitted + excluded.admitted,
    refused = (
        SELECT coalesce(jsonb_object_agg(added.key, added.total), '{}')
        FROM (SELECT both_.key, sum(both_.value::bigint) AS total
              FROM (SELECT * FROM jsonb_each_text(minute.refused) UNION ALL SELECT * FROM jsonb_each_text(excluded.refused)) both_
              GROUP BY both_.key) added
    ),
    returned = minute.returned + excluded.returned,
    returned_admitted = minute.returned_admitted + excluded.returned_admitted
"""
