"""A body is decoded no further than it may be large, and not at all in ways that nobody asked for."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator

import pytest

from workers.decoding import TooLarge, WrongEncoding, decoded

BODY = b"0123456789" * 20


def read(body: bytes, encoding: str, most_bytes: int = 1000, step: int = 7) -> bytes:
    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(body), step):
            yield body[at : at + step]

    return asyncio.run(decoded(parts(), encoding, most_bytes))


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("X-GZip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_body_is_what_was_packed(encoding: str, pack: object, step: int) -> None:
    assert read(pack(BODY), encoding, step=step) == BODY  # type: ignore[operator]
    assert read(b"", encoding) == b""


@pytest.mark.parametrize(("most", "fits"), [(200, True), (199, False)])
@pytest.mark.parametrize(("encoding", "pack"), [("", bytes), ("gzip", gzip.compress)])
def test_a_body_may_be_so_large_and_no_larger(encoding: str, pack: object, most: int, fits: bool) -> None:
    packed = pack(BODY)  # type: ignore[operator]
    if fits:
        assert read(packed, encoding, most) == BODY
    else:
        with pytest.raises(TooLarge):
            read(packed, encoding, most)


def test_of_a_bomb_no_more_is_unpacked_than_may_be_kept() -> None:
    """256 MB from 250 kB, read in the memory of a few."""
    bomb = b"".join(_zeros(256))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            read(bomb, "gzip", 100_000, step=len(bomb))
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def _zeros(megabytes: int) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    for _ in range(megabytes):
        yield packer.compress(bytes(1_000_000))
    yield packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip, gzip", gzip.compress(gzip.compress(BODY))),
        ("br", b"anything"),
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY)[:-9]),
        ("deflate", b"\xff\xff\xff\xff"),
    ],
    ids=["twice", "another", "not at all", "cut off", "nonsense"],
)
def test_what_is_not_encoded_as_was_asked_is_wrong(encoding: str, body: bytes) -> None:
    with pytest.raises(WrongEncoding):
        read(body, encoding)
