"""Content-Digest (RFC 9530): what a sender says that the SHA-256 of its body is."""

import base64
import binascii
import re
from collections.abc import Mapping

from jobs.api.errors import Problem

_MEMBER = re.compile(r"(?:^|,)\s*sha-256\s*=\s*([^,;]*)")
_BYTES = re.compile(r":([A-Za-z0-9+/]{43}=):")


def asked(headers: Mapping[str, str]) -> str | None:
    """In hexadecimal; None if there is none of SHA-256: other algorithms are no concern of ours. Raises Problem (400)."""
    match = _MEMBER.search(headers.get("Content-Digest", ""))
    if match is None:
        return None
    form = _BYTES.fullmatch(match[1].strip())
    if form is None:
        raise Problem("bad_request", "Content-Digest must be sha-256=:<32 bytes in Base64>: (RFC 9530).")
    try:
        return base64.b64decode(form[1], validate=True).hex()
    except binascii.Error:
        raise Problem("bad_request", "Content-Digest holds no Base64.") from None


def must_be(asked: str | None, sha256: str) -> None:
    """Raises Problem (400) where the body is not what its sender meant."""
    if asked not in {None, sha256}:
        sentence = "The body's SHA-256 is not that of Content-Digest: it came damaged, or is another; nothing was kept."
        raise Problem("digest_mismatch", sentence, sha256=sha256)
