"""A stored file as an answer: by its own name, as an attachment that no browser runs, whole or in part (RFC 9110)."""

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, BinaryIO

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header

from jobs.api import conditions
from jobs.api.errors import Problem

PIECE_BYTES = 262_144
_RANGE = re.compile(r"bytes=(?:([0-9]{1,40})-([0-9]{1,40})?|-([0-9]{1,40}))", re.IGNORECASE)
_CACHED = {"Cache-Control": "private, no-cache"}
# Whatever type its author says that a file is of, a page that a browser makes of it may do nothing.
_HARMLESS = {"Content-Security-Policy": "default-src 'none'; sandbox", "X-Content-Type-Options": "nosniff"}


class Part:
    """So many bytes of an open file, from where it stands."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file, self._left = file, size_bytes

    def read(self, most_bytes: int) -> bytes:
        piece = self._file.read(min(most_bytes, self._left))
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        self._file.close()


class FileAnswer(StreamingHttpResponse):
    """A server that knows of `source` reads it as its caller takes it, and closes it; in WSGI it is iterated. `owner`:
    who takes it.
    """

    def __init__(self, source: Part, owner: Hashable, **more: Any) -> None:
        self.source, self.owner = source, owner
        super().__init__(_pieces(source), **more)


def _pieces(source: Part) -> Iterator[bytes]:
    """To close it before its first piece closes nothing: the source is somebody else's then."""
    try:
        while piece := source.read(PIECE_BYTES):
            yield piece
    finally:
        source.close()


def answer(
    method: str | None,
    headers: Mapping[str, str],
    file: BinaryIO,
    *,
    size_bytes: int,
    tag: str,
    content_type: str,
    name: str,
    owner: Hashable,
) -> HttpResponseBase:
    """`method` and `headers` are the request's. Raises Problem (416); the file is closed then."""
    about = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        **_CACHED,
        "Content-Disposition": content_disposition_header(True, name) or "attachment",
        **_HARMLESS,
    }
    wanted = _range(headers, size_bytes, tag) if method == "GET" else None  # of any other a range means nothing
    if wanted is None:
        about["Content-Length"] = str(size_bytes)
        return FileAnswer(Part(file, size_bytes), owner, content_type=content_type, headers=about)
    if not wanted:
        file.close()
        raise _not_there(size_bytes)
    file.seek(wanted.start)
    about["Content-Length"] = str(len(wanted))
    about["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{size_bytes}"
    return FileAnswer(Part(file, len(wanted)), owner, status=206, content_type=content_type, headers=about)


def unchanged(headers: Mapping[str, str], tag: str) -> HttpResponseBase | None:
    """304 for who has it already. Raises Problem (412) for who wants another one only: that condition comes first."""
    conditions.must_match(headers, tag, "file")
    return conditions.not_modified({"ETag": tag, **_CACHED}) if conditions.has_it(headers, tag) else None


def _range(headers: Mapping[str, str], size_bytes: int, tag: str) -> range | None:
    """None for the whole: also where several ranges are asked for, or none that can be read, which a server may ignore."""
    match = _RANGE.fullmatch(headers.get("Range", "").strip())
    if match is None or headers.get("If-Range", tag).strip() != tag:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return range(max(0, size_bytes - int(suffix)), size_bytes)
    if last is not None and int(last) < int(first):
        return None
    return range(int(first), min(size_bytes, int(last) + 1 if last is not None else size_bytes))


def _not_there(size_bytes: int) -> Problem:
    headers = {"Content-Range": f"bytes */{size_bytes}"}
    return Problem("range_not_satisfiable", f"The file is {size_bytes} bytes.", headers=headers)
