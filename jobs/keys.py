"""API keys: made once, seen once, kept as their SHA-256 (P39)."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Least, Now

from jobs.models import ApiClient, ApiKey

SUBMIT, READ, CANCEL, OPS_READ, OPS_WRITE = "jobs:submit", "jobs:read", "jobs:cancel", "ops:read", "ops:write"
ALL_SCOPES = [SUBMIT, READ, CANCEL, OPS_READ, OPS_WRITE]
USUAL_SCOPES = ALL_SCOPES[:-1]  # of a key of which nothing is said: whoever has ops:write can stop all clients' work
Needed = str | tuple[str, ...]  # one scope, or any of several
TO_LOOK: Needed = (READ, OPS_READ)  # at what is nobody's own: classes, types, and the caller itself
USE_IS_WRITTEN_EVERY = timedelta(minutes=1)  # per key: its last use is for people to see, not to count with (P7)


class UnknownScope(ValueError):
    def __init__(self, scope: str) -> None:
        super().__init__(f"There is no scope {scope!r}; there are: {', '.join(ALL_SCOPES)}.")


def any_of(needed: Needed) -> tuple[str, ...]:
    return (needed,) if isinstance(needed, str) else needed


def new_key(client: ApiClient, scopes: Sequence[str], lasts: timedelta | None = None) -> str:
    """Make a key and return it: the only time it can be seen. Raises UnknownScope."""
    for scope in scopes:
        if scope not in ALL_SCOPES:
            raise UnknownScope(scope)
    row = ApiKey(client=client, scopes=list(scopes), expires_at=None if lasts is None else Now() + lasts)
    key = cut(row)
    row.save()
    return key


def cut(row: ApiKey) -> str:
    """A new key; its hash and its first characters go into the row, which is not saved."""
    key = f"wb_{secrets.token_urlsafe(32)}"  # 256 random bits, so one fast hash is enough
    row.digest, row.hint = digest(key), key[:8]
    return key


def rotate(old: ApiKey, lasts: timedelta | None, overlap: timedelta) -> str:
    """A new key with the client and the scopes of the old one, which goes on working for the overlap, if it did.

    lasts: None is as long as the old one was made for, so that no key becomes one that never ends by being rotated.
    """
    if lasts is None and old.expires_at is not None:
        lasts = old.expires_at - old.created_at
    with transaction.atomic():
        key = new_key(old.client, old.scopes, lasts)
        ApiKey.objects.filter(pk=old.pk).update(expires_at=Least("expires_at", Now() + overlap))
    return key


def revoke(key: ApiKey) -> bool:
    """Whether it was not revoked before. It stops working with the next request."""
    return ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=Now()) == 1


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def live_key(key: str) -> ApiKey | None:
    """The key's row, with its client, if it may be used now; that it was is written down once a minute."""
    arguments: dict[str, Any] = {"digest": digest(key), "rest": USE_IS_WRITTEN_EVERY}
    with connection.cursor() as cursor:
        cursor.execute(_LIVE, arguments)
        row = cursor.fetchone()
        if row is None:
            return None
        rested, *values = row
        found = ApiKey.from_db(connection.alias, _KEY, values[: len(_KEY)])
        found.client = ApiClient.from_db(connection.alias, _CLIENT, values[len(_KEY) :])
        if rested:
            cursor.execute(_USED, {**arguments, "key": found.pk})
    return found


_KEY = [field.attname for field in ApiKey._meta.concrete_fields]
_CLIENT = [field.attname for field in ApiClient._meta.concrete_fields]

# The key of a digest if it works now, its client, and whether its last use is to be written down. By hand, because every request asks it: to have the
# ORM build it anew each time took more CPU than the whole admission of a job (bench/, decision 0009).
_LIVE = f"""
SELECT coalesce(key.last_used_at < statement_timestamp() - %(rest)s, true), {", ".join(f"key.{name}" for name in _KEY)}, {", ".join(f"client.{name}" for name in _CLIENT)}
FROM jobs_apikey key JOIN jobs_apiclient client ON client.id = key.client_id
WHERE key.digest = %(digest)s AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > statement_timestamp())
"""

# SKIP LOCKED: nobody's request waits for somebody's open transaction on that row.
_USED = """
UPDATE jobs_apikey SET last_used_at = statement_timestamp()
WHERE id = (SELECT id FROM jobs_apikey
            WHERE id = %(key)s AND (last_used_at IS NULL OR last_used_at < statement_timestamp() - %(rest)s)
            FOR NO KEY UPDATE SKIP LOCKED)
"""
