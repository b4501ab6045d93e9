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
from jobs.models import ApiClient, Artifact, Upload
from tests.job_rows import a_client


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
