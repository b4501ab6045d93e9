"""Files of the data directory that only their owner may read (mode 600), and the secrets kept in them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def kept_secret(file: Path) -> str:
    """The secret kept in `file`, made at the first use: 32 URL-safe characters (192 bits)."""
    try:
        secret = file.read_text().strip()
    except FileNotFoundError:
        secret = ""
    if not secret:
        secret = secrets.token_urlsafe(24)
        write_private(file, secret + "\n")
    return secret


def write_private(file: Path, text: str, owner: tuple[int, int] | None = None) -> None:
    """Replace `file` in one step, mode 600 from its first moment; `owner` is (uid, gid), when another than ours."""
    half = file.with_name(file.name + ".new")
    half.unlink(missing_ok=True)
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        if owner:
            os.fchown(stream.fileno(), *owner)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    half.replace(file)
