"""How much one client may have in uploads: in bytes, and in files, since an empty one takes a row and a place in a
folder too.

What it has deleted lies in the storage for a minute or two more (see uploads.discard). It counts for none of what the
client keeps, but both together are at most twice as much: else to send and delete in turns would fill the disk.
"""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q, Sum

from jobs.models import ApiClient, Upload

MOST_FILES = 10_000  # a look at all of them stays cheap, and a folder with them quick
UNTIL_THE_OLDEST_GOES_SECONDS = 300  # a guess; the client may delete one at once
UNTIL_DELETED_ONES_GO_SECONDS = 60  # the sweep of files runs so often


class NoRoom(Exception):
    """With this one the client would have more than it may; the text says of what, and how to come by room."""

    def __init__(self, sentence: str, retry_after_seconds: int) -> None:
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds
        self.limit_bytes: int = settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES


@dataclass(frozen=True)
class Use:
    """Of one client, those on their way into the storage too. `all_…`: with what it has deleted and is not removed yet."""

    kept_bytes: int
    kept_files: int
    all_bytes: int
    all_files: int


def use_of(client: ApiClient) -> Use:
    """In one query."""
    kept = Q(deleted_at__isnull=True)
    sums = Upload.objects.filter(client=client).aggregate(
        kept_bytes=Sum("size_bytes", filter=kept, default=0),
        kept_files=Count("pk", filter=kept),
        all_bytes=Sum("size_bytes", default=0),
        all_files=Count("pk"),
    )
    return Use(**{name: int(value) for name, value in sums.items()})  # a sum of bigint is numeric


def refuse_without_room(client: ApiClient, size_bytes: int) -> None:
    """Raises NoRoom. Only the row that is stored decides; this spares who asks first the sending."""
    use, most_bytes = use_of(client), settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES
    if use.kept_bytes + size_bytes > most_bytes:
        raise _kept(f"{use.kept_bytes} bytes of uploads", most_bytes)
    if use.kept_files >= MOST_FILES:
        raise _kept(f"{use.kept_files} uploads", MOST_FILES)
    if use.all_bytes + size_bytes > 2 * most_bytes or use.all_files >= 2 * MOST_FILES:
        raise NoRoom(
            "This client has deleted as much as it may keep, and it is not removed yet; it will be within two minutes.",
            UNTIL_DELETED_ONES_GO_SECONDS,
        )


def _kept(what: str, limit: int) -> NoRoom:
    sentence = (
        f"This client keeps {what}; it may keep {limit}. Delete one that no job needs, or wait until the oldest goes."
    )
    return NoRoom(sentence, UNTIL_THE_OLDEST_GOES_SECONDS)
