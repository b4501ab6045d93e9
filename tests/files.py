"""Uploads and artifacts as tests need them."""

import hashlib
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.files.storage import storages
from django.db import connection

from jobs.files import artifacts, stored_files, uploads
from jobs.files.artifacts import Made
from jobs.files.spool import Spool
from jobs.lifecycle import Claim
from jobs.models import ApiClient, Artifact, Job, Upload
from tests.job_rows import a_client, read
from workers.context import JobContext


def spooled(content: bytes) -> Spool:
    spool = Spool(len(content))
    spool.write(content)
    return spool


def an_upload(content: bytes = b"content", client: ApiClient | None = None, **fields: Any) -> Upload:
    """A stored one. `fields` (created_at, say) are written past the code that would."""
    with spooled(content) as spool:
        upload = uploads.keep(client or a_client(), spool).upload
    Upload.objects.filter(pk=upload.pk).update(**fields)
    return Upload.objects.get(pk=upload.pk)


def an_artifact(claimed: Claim, name: str = "a.txt", content: bytes = b"content", *, stored: bool = True) -> Artifact:
    """As an attempt leaves it; its row alone where it is not `stored`."""
    digest = hashlib.sha256(content).hexdigest()
    made = Made(uuid4(), claimed.job_id, claimed.attempt, name, "text/plain", len(content), digest)
    artifacts.begin(connection, made)
    if stored:
        with spooled(content) as spool:
            stored_files.put(made.file_name, spool.file)
        artifacts.finish(connection, made)
    return Artifact.objects.get(pk=made.id)


def stored(kind: str) -> set[str]:
    """The names of the files that the storage holds of `uploads`, or of `artifacts`."""
    folder = Path(storages["jobs"].path(kind))
    return {file.name for file in folder.iterdir()} if folder.exists() else set()


def on_their_way() -> list[str]:
    """Files in the spool that have a name, or that a descriptor of this process still holds."""
    folder = Path(settings.WEIGHBRIDGE_DATA_DIR) / "spool"
    named = [file.name for file in folder.iterdir()] if folder.exists() else []
    held = [link for fd in Path("/proc/self/fd").iterdir() if (link := _target(fd)).startswith(str(folder))]
    return named + held


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""


# ── As a handler leaves them, and its caller sees them ───────────────────────────────────────────────────────────────


def seen(job: Job) -> dict[str, bytes]:
    """What its caller would get, by name."""
    contents = {}
    for one in artifacts.of_job(read(job.pk)):
        with stored_files.opened(one.file_name) as file:
            contents[one.name] = file.read()
    return contents


def rows_and_files() -> tuple[int, int]:
    """How many there are, whoever may see them; the files are those that a row names."""
    names = {str(pk) for pk in Artifact.objects.values_list("pk", flat=True)}
    return len(names), len(names & stored("artifacts"))


def leave(ctx: JobContext[Any], name: str = "a.txt", content: bytes = b"left") -> None:
    with ctx.artifacts.create(name, "text/plain") as file:
        file.write(content)
