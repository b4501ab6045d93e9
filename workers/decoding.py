"""Bodies of answers as they come, decoded no further than they may be large. No Django.

A few kilobytes may hold gigabytes of zeros, so a body is not decoded first and measured then.
"""

import zlib
from collections.abc import AsyncIterator

GZIP, ZLIB, RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
ACCEPTED = "gzip, deflate"  # what is asked for


class WrongEncoding(ValueError):
    """The body is not encoded as its header says, or in a way that nobody asked for."""


class TooLarge(ValueError):
    """More than may be kept."""


async def decoded(parts: AsyncIterator[bytes], encoding: str, most_bytes: int) -> bytes:
    """The whole body; `encoding` is its Content-Encoding. Raises WrongEncoding, TooLarge."""
    decoder = _decoder(encoding)
    content = bytearray()
    async for part in parts:
        content += part if decoder is None else decoder.feed(part, most_bytes + 1 - len(content))
        if len(content) > most_bytes:
            raise TooLarge
    if decoder is not None and not decoder.is_whole:
        raise WrongEncoding
    return bytes(content)


def _decoder(encoding: str) -> "_Inflater | None":
    codings = [word for word in (word.strip().lower() for word in encoding.split(",")) if word not in {"", "identity"}]
    match codings:
        case []:
            return None
        case ["gzip" | "x-gzip"]:
            return _Inflater(GZIP)
        case ["deflate"]:
            return _Inflater(ZLIB, RAW)
    raise WrongEncoding  # twice, or otherwise


class _Inflater:
    """`formats` are tried in turn on the first bytes: some who say deflate leave the header of zlib out."""

    def __init__(self, *formats: int) -> None:
        self._formats = list(formats)
        self._inflate = zlib.decompressobj(self._formats.pop(0))
        self._head = b""  # the first two bytes tell the formats apart
        self._begun = False

    @property
    def is_whole(self) -> bool:
        return self._inflate.eof or not self._head  # an empty body needs no header

    def feed(self, part: bytes, most_bytes: int) -> bytes:
        """At most so many bytes of what it holds."""
        if not self._begun:
            part = self._head = self._head + part
            if len(part) < 2:
                return b""
        try:
            out = self._inflate.decompress(part, max(1, most_bytes))
        except zlib.error:
            if self._begun or not self._formats:
                raise WrongEncoding from None
            self._inflate = zlib.decompressobj(self._formats.pop(0))
            return self.feed(b"", most_bytes)
        self._begun = True
        return out
