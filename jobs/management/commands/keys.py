"""Making, listing, rotating and revoking the keys of API clients."""

from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.utils import InterfaceError, OperationalError

from jobs import keys
from jobs.door.asking import IN_PROCESS
from jobs.models import ApiClient, ApiKey

MOST = 36_600  # days: a hundred years


class Command(BaseCommand):
    help = "API keys: make, list, rotate, revoke. A new key is printed once, on standard output; only its hash is kept."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_subparsers(dest="what", metavar="make|list|rotate|revoke", required=True)
        make = what.add_parser("make", help="Make a key for a client; a client that is not there is made too.")
        make.add_argument("client", help="The client's name; jobs belong to it, never to one of its keys.")
        make.add_argument(
            "--scope",
            action="append",
            choices=keys.ALL_SCOPES,
            help=f"May be given more than once. Default: all but {keys.OPS_WRITE}, which stops and resumes everybody's work.",
        )
        _lasting(make)
        listing = what.add_parser("list", help="List keys: id, first characters, client, scopes, last use, end.")
        listing.add_argument("client", nargs="?", help="Only this client's.")
        rotate = what.add_parser(
            "rotate", help="Make a new key in place of another, which goes on working for the overlap."
        )
        rotate.add_argument("id", type=int, help="The id that `keys list` shows.")
        rotate.add_argument("--overlap-hours", type=positive_number, default=24.0, help="Default: 24.")
        _lasting(rotate, "How long the new key lasts; without it, as long as the old one was made for.")
        revoke = what.add_parser("revoke", help="Stop a key from working, at once.")
        revoke.add_argument("id", type=int, help="The id that `keys list` shows.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['what']}")(**options)
        except (OperationalError, InterfaceError) as error:
            hint = (
                f"Does a stack run on the data directory {settings.WEIGHBRIDGE_DATA_DIR}? One with another is found by its"
                " WEIGHBRIDGE_DATA_DIR, your own server by its DATABASE_URL."
            )
            raise CommandError(f"The database cannot be asked: {str(error).splitlines()[0]}\n{hint}") from None

    def _make(self, client: str, scope: list[str] | None, days: float | None, **others: Any) -> None:
        if client.strip() == IN_PROCESS:
            raise CommandError(f"{IN_PROCESS} is the client of Django code in this installation; it has no keys.")
        if not (1 <= len(client.strip()) <= 100 and client.isprintable()):
            raise CommandError(f"The client's name is {ascii(client)}; it must have 1 to 100 printable characters.")
        owner, _ = ApiClient.objects.get_or_create(name=client.strip())
        self._show(keys.new_key(owner, scope or keys.USUAL_SCOPES, _days(days)))

    def _list(self, client: str | None, **others: Any) -> None:
        if client is not None and not (client.isprintable() and ApiClient.objects.filter(name=client).exists()):
            raise CommandError(f"There is no client {ascii(client)}.")
        rows = ApiKey.objects.select_related("client").order_by("client__name", "pk")
        found = rows if client is None else rows.filter(client__name=client)
        if not found:
            self.stderr.write("There are no keys yet; `keys make` makes one.")
        for key in found:
            self.stdout.write(
                f"{key.pk}\t{key.hint}…\t{key.client}\t{','.join(key.scopes)}\tlast used {_shown(key.last_used_at)}"
                f"\t{_end_of(key)}"
            )

    def _rotate(self, id: int, overlap_hours: float, days: float | None, **others: Any) -> None:
        old = _key(id)
        if old.revoked_at is not None:
            raise CommandError(f"Key {id} was revoked; `keys make` makes a new one.")
        key = keys.rotate(old, _days(days), timedelta(hours=overlap_hours))
        old.refresh_from_db()
        new = ApiKey.objects.get(digest=keys.digest(key))
        self.stderr.write(f"Key {id} works {_end_of(old)}; key {new.pk}, in its place, works {_end_of(new)}.")
        self._show(key)

    def _revoke(self, id: int, **others: Any) -> None:
        key = _key(id)
        if not keys.revoke(key):
            raise CommandError(f"Key {id} was revoked before.")
        self.stderr.write(f"Key {id} ({key.hint}…, of {key.client}) is revoked, and works no longer.")

    def _show(self, key: str) -> None:
        self.stderr.write("This is the only time that the key is shown.")
        self.stdout.write(key)


def _lasting(parser: Any, help: str = "How long the key lasts; without it, until it is revoked.") -> None:
    parser.add_argument("--days", type=positive_number, help=help)


def positive_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= MOST:
        raise ArgumentTypeError(f"{text!r} is not a number above 0 and up to {MOST}")
    return number


def _days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _key(id: int) -> ApiKey:
    key = ApiKey.objects.select_related("client").filter(pk=id).first()
    if key is None:
        raise CommandError(f"There is no key {id}; `keys list` shows those that there are.")
    return key


def _end_of(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_shown(key.revoked_at)}"
    return f"until {_shown(key.expires_at)}" if key.expires_at else "until it is revoked"


def _shown(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant:%Y-%m-%d %H:%M}Z"
