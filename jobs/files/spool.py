"""Bytes on their way into the storage: in a file without a name, which is gone however its process ends."""

import hashlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from django.conf import settings


class SpoolFull(ValueError):
    """More came than may be kept; what was written is worth nothing any more."""


class Spool:
    """Written once, from its beginning to its end; then `file` holds what came, to be read from anywhere."""

    def __init__(self, most_bytes: int) -> None:
        """Raises OSError when there is no room for files at all."""
        folder = Path(settings.WEIGHBRIDGE_DATA_DIR) / "spool"  # on a disk: /tmp may be memory
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  open as long as it is
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._digest = hashlib.sha256()

    def write(self, some: Any) -> int:
        """Bytes, or what has a buffer of them. Raises SpoolFull, and OSError when the disk is full."""
        view = memoryview(some).cast("B")
        if self.size_bytes + len(view) > self.most_bytes:
            raise SpoolFull
        self.file.write(view)
        self._digest.update(view)
        self.size_bytes += len(view)
        return len(view)

    @property
    def sha256(self) -> str:
        """Of what came so far, in hexadecimal."""
        return self._digest.hexdigest()

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
