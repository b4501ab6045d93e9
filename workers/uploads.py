"""`ctx.open_upload`: what a caller sent, for the handler to read."""

from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import structlog

from jobs.files import stored_files, uploads
from workers.failures import Fail
from workers.once import on_this_thread

log = structlog.get_logger(__name__)


def open_upload(job_id: UUID, upload_id: str) -> BinaryIO:
    """Of the client whose job it is, and nobody else's. Raises Fail (upload_gone)."""
    with on_this_thread():
        found = uploads.of_job(job_id, upload_id)
    if found is None:
        raise gone(upload_id)
    try:
        return stored_files.opened(found.file_name)
    except FileNotFoundError:
        log.error("upload_file_missing", upload_id=str(found.pk))
        raise gone(upload_id) from None


def gone(upload_id: str) -> Fail:
    return Fail("upload_gone", f"There is no upload {upload_id!s:.40} any more.")


def open_file(files: dict[str, Path], upload_id: str) -> BinaryIO:
    """Of a handler that is run by hand: a file of this machine stands for each upload. Raises Fail."""
    if upload_id not in files:
        raise Fail(
            "upload_gone",
            f"No file stands for upload {upload_id!s:.40}; say which with --upload {upload_id!s:.40}=FILE.",
        )
    return files[upload_id].open("rb")
