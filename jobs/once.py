"""What handlers do once per job, as the database keeps it (P28).

Raw SQL because each statement looks in the same breath whether the attempt still owns its job: one that lost it
writes nothing (P18). A job takes a key with one insert, so of any number of connections one is first.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection


class StaleAttempt(Exception):
    """The attempt does not own its job any more; nothing was read or written."""


@dataclass(frozen=True)
class Kept:
    """What stands under a key. `taken`: the key alone was taken, without a function and so without a result."""

    result: Any = None
    taken: bool = False


def recall(job_id: UUID, attempt: int, key: str) -> Kept | None:
    """What stands under the key of this job; None if nothing does. Raises StaleAttempt."""
    with connection.cursor() as cursor:
        cursor.execute(_RECALL, {"job": job_id, "attempt": attempt, "key": key})
        row = cursor.fetchone()
    if row is None or not row[0]:
        raise StaleAttempt
    _, is_there, text = row
    return _kept(text) if is_there else None


_RECALL = """
SELECT job.state = 'running' AND job.attempt = %(attempt)s, kept.id IS NOT NULL, kept.result
FROM jobs_job job LEFT JOIN jobs_onceresult kept ON kept.job_id = job.id AND kept.key = %(key)s
WHERE job.id = %(job)s
"""


def keep(job_id: UUID, attempt: int, key: str, text: str) -> Kept:
    """Store a result, JSON text, under the key; what stands there now, which is another's if that was first.

    Raises StaleAttempt.
    """
    if _insert(job_id, attempt, key, text):
        return _kept(text)
    return recall(job_id, attempt, key) or _kept(text)


def take(job_id: UUID, attempt: int, key: str) -> bool:
    """Take the key alone. True for exactly one call in the job's whole life. Raises StaleAttempt."""
    return _insert(job_id, attempt, key, None)


def _insert(job_id: UUID, attempt: int, key: str, text: str | None) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"job": job_id, "attempt": attempt, "key": key, "result": text})
        is_ours, added = cursor.fetchone()
    if not is_ours:
        raise StaleAttempt
    return bool(added)


# A second insert of the key waits for the first one's transaction, so it knows.
_INSERT = """
WITH mine AS MATERIALIZED (
    SELECT id FROM jobs_job WHERE id = %(job)s AND state = 'running' AND attempt = %(attempt)s
), added AS (
    INSERT INTO jobs_onceresult (job_id, key, result) SELECT id, %(key)s, %(result)s::jsonb FROM mine
    ON CONFLICT (job_id, key) DO NOTHING
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM mine), EXISTS (SELECT 1 FROM added)
"""


def _kept(text: str | None) -> Kept:
    return Kept(taken=True) if text is None else Kept(json.loads(text))
