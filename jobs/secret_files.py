"""Secrets kept in files that only their owner may read (mode 600 from the first moment on). The standard library alone."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path


def read_secret(file: Path) -> str:
    """The secret in `file`; empty when there is none."""
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return ""


def kept_secret(file: Path, size_bytes: int = 24) -> str:
    """The secret kept in `file`, made at the first use from so many random bytes; URL-safe characters, 4 for every 3.

    Of several processes that find none, the first keeps its own and the others take that.
    """
    return read_secret(file) or _keep(file, secrets.token_urlsafe(size_bytes))


def _keep(file: Path, secret: str) -> str:
    draft = _draft(file, secret + "\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        if kept := read_secret(file):
            return kept
        draft.replace(file)  # an empty file, of a disk that was full
    finally:
        draft.unlink(missing_ok=True)
    return secret


def write_private(file: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Replace `file` in one step, so that nobody reads half of it; `owner` is (uid, gid), when another than ours."""
    _draft(file, text, owner).replace(file)


def _draft(file: Path, text: str, owner: tuple[int, int] | None = None) -> Path:
    # A new file of mode 600 whatever lies there (O_EXCL): one made beforehand by another could be open to him.
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w") as stream:
            if owner:
                os.fchown(stream.fileno(), *owner)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft
