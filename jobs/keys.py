"""API keys: made once, seen once, kept as their SHA-256 (P39)."""

import hashlib
import secrets

from django.db.models import Q
from django.db.models.functions import Now

from jobs.models import ApiClient, ApiKey

SUBMIT, READ, CANCEL, OPS_READ = "jobs:submit", "jobs:read", "jobs:cancel", "ops:read"
ALL_SCOPES = [SUBMIT, READ, CANCEL, OPS_READ]


def new_key(client: ApiClient, scopes: list[str]) -> str:
    """Make a key and return it: the only time it can be seen."""
    key = f"wb_{secrets.token_urlsafe(32)}"  # 256 random bits, so one fast hash is enough
    ApiKey.objects.create(client=client, digest=digest(key), hint=key[:8], scopes=scopes)
    return key


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def live_key(key: str) -> ApiKey | None:
    """The key's row if it may be used now."""
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))
    return ApiKey.objects.select_related("client").filter(live, digest=digest(key)).first()
