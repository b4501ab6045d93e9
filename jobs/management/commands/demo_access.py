"""The demo client's key and the admin's password, written where only their owner can read them."""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction

from jobs import keys
from jobs.models import ApiClient
from jobs.secret_files import read_secret, write_private

CLIENT = "demo"
ADMIN = "admin"


class Command(BaseCommand):
    help = "Make the demo client and the superuser 'admin'; write <data dir>/demo-key and admin-password (mode 600)."

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = settings.WEIGHBRIDGE_DATA_DIR
        folder.mkdir(parents=True, exist_ok=True)
        self._demo_key(folder / "demo-key")
        self._admin_password(folder / "admin-password")

    def _demo_key(self, file: Path) -> None:
        client, _ = ApiClient.objects.get_or_create(name=CLIENT)
        kept = read_secret(file)
        if not kept or keys.live_key(kept) is None:
            write_private(file, keys.new_key(client, keys.ALL_SCOPES) + "\n")

    # The file is written before the commit: a password that is in the database is in the file too.
    @transaction.atomic
    def _admin_password(self, file: Path) -> None:
        user, created = get_user_model().objects.get_or_create(
            username=ADMIN, defaults={"is_staff": True, "is_superuser": True}
        )
        if created:
            password = secrets.token_urlsafe(18)
            user.set_password(password)
            user.save()
            write_private(file, password + "\n")
        elif not ((kept := read_secret(file)) and user.check_password(kept)):
            # Somebody's own account, or own password. Standard error, which the launcher passes on.
            self.stderr.write(
                f"The account {ADMIN!r} was there before and is left as it is, so its password is not in {file};"
                f" `manage.py changepassword {ADMIN}` sets a new one."
            )
