"""Conditional requests about a job or a file (RFC 9110), by its ETag alone: neither has a Last-Modified, so dates are no conditions."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.utils.http import parse_etags

from jobs.api.errors import Problem


def etag(shown: dict[str, Any]) -> str:
    """Of a job as it is shown: another when anything in it is, but where it stands in the queue, which is so at the moment of the look only."""
    shown = {name: value for name, value in shown.items() if name != "waiting"}
    return f'"{hashlib.sha256(json.dumps(shown, ensure_ascii=False).encode()).hexdigest()[:32]}"'


def must_match(headers: Mapping[str, str], tag: str, what: str = "job") -> None:
    """Raises Problem (412) if If-Match names another state of it. A weak tag never matches."""
    wanted = headers.get("If-Match")
    if wanted is not None and not {"*", tag}.intersection(parse_etags(wanted)):
        raise Problem("precondition_failed", f"The {what} is not as If-Match says.", headers={"ETag": tag})


def has_it(headers: Mapping[str, str], tag: str) -> bool:
    """Whether the caller has this very state, by If-None-Match."""
    known = parse_etags(headers.get("If-None-Match", ""))
    return bool({"*", tag}.intersection(one.removeprefix("W/") for one in known))


def not_modified(headers: Mapping[str, str]) -> HttpResponse:
    answer = HttpResponse(status=304, headers=dict(headers))
    del answer["Content-Type"]  # a cache would take it for the one that it has kept
    return answer
