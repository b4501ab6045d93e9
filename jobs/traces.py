"""W3C trace context: which trace a request belongs to, and what is told to those whom it causes to be asked. No Django."""

import re
import secrets

_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def accepted(header: str) -> str:
    """A traceparent as version 00 has it, in whatever later version it came; empty for what is none: then it is as if nothing came."""
    given = header.strip()
    match = _FORM.fullmatch(given)
    if match is None or (match[1] == "00" and match[2]):
        return ""
    return f"00{given[2:55]}"


def trace_id(traceparent: str) -> str:
    """Empty for no trace."""
    return traceparent[3:35]


def onward(traceparent: str) -> str:
    """The header for a call that is made in the course of it: the same trace, a new parent."""
    return f"{traceparent[:36]}{secrets.token_hex(8)}{traceparent[52:]}" if traceparent else ""
