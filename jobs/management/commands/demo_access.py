"""The demo client's key and the admin's password, written where only their owner can read them."""

import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from jobs import keys
from jobs.models import ApiClient

CLIENT = "demo"
ADMIN = "admin"


class Command(BaseCommand):
    help = "Make the demo client and the superuser 'admin'; write <data dir>/demo-key and admin-password (mode 600)."

    def handle(self, *args: Any, **options: Any) -> None:
        self._demo_key(settings.WEIGHBRIDGE_DATA_DIR / "demo-key")
        self._admin_password(settings.WEIGHBRIDGE_DATA_DIR / "admin-password")

    def _demo_key(self, file: Path) -> None:
        client, _ = ApiClient.objects.get_or_create(name=CLIENT)
        kept = _read(file)
        if kept is None or keys.live_key(kept) is None:
            _write(file, keys.new_key(client, keys.ALL_SCOPES))

    def _admin_password(self, file: Path) -> None:
        user, _ = get_user_model().objects.get_or_create(
            username=ADMIN, defaults={"is_staff": True, "is_superuser": True}
        )
        kept = _read(file)
        if kept is None or not user.check_password(kept):
            password = secrets.token_urlsafe(18)
            user.set_password(password)
            user.save()
            _write(file, password)


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return None


def _write(file: Path, secret: str) -> None:
    """Replaced in one step, so that nobody ever reads half a secret."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(secret + "\n")
    draft.replace(file)
