"""Reading request bodies: bounded, strict JSON, and always JSON out."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser

from jobs import classes
from jobs.api.errors import Problem
from jobs.storable import holds_infinity, holds_nul

if TYPE_CHECKING:  # DRF's request module imports this one while it loads
    from rest_framework.request import Request

ENVELOPE_BYTES = 16_384  # for what stands around the params
BATCH_BYTES = 4 * 1024 * 1024
BATCHES = "/api/v1/batches"
DEEPEST = 201  # arrays and objects in one another: the reader's own limit, which a test holds this against


def limit_bytes(path: str = "") -> int:
    """The largest body that could be acceptable at this address: to some class, or as a batch."""
    if path == BATCHES:
        return BATCH_BYTES
    return max(c.params_bytes for c in classes.declared().values()) + ENVELOPE_BYTES


def json_of(request: "Request") -> Any:
    """The body's JSON. DRF takes a request without a body for an empty form; here it is nothing readable."""
    if request.META.get("CONTENT_LENGTH") in {None, "", "0"}:
        raise ParseError("The request has no body; send a JSON object.")
    return request.data


class JsonBody(BaseParser):
    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        length = int(stream.META.get("CONTENT_LENGTH") or 0)
        most = limit_bytes(stream.path)
        if length > most:
            raise Problem.too_large(f"The body is {length} bytes", most)
        return read_json(stream.read(max(0, length)))


def read_json(raw: bytes) -> Any:
    """Strict JSON: no NaN, no lone surrogates, bounded depth, each name once, and nothing PostgreSQL cannot store."""
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        if str(error).startswith("recursion limit"):
            raise ParseError(f"The body holds arrays or objects more than {DEEPEST} deep in one another.") from None
        raise ParseError(f"The body is not valid JSON: {error}.") from None
    _refuse_names_given_twice(raw)
    if b"\\u0000" in raw and holds_nul(value):
        raise ParseError("The body holds the character U+0000, which cannot be stored.")
    if holds_infinity(value):  # 1e400 is valid JSON, and no double
        raise ParseError("The body holds a number that is beyond all floating-point numbers.")
    return value


def _refuse_names_given_twice(raw: bytes) -> None:
    """Which of two values counts is each reader's own choice; a proxy that looked into the body may have made the other."""

    def one_each(members: list[tuple[str, Any]]) -> None:
        names = Counter(name for name, _ in members)
        if len(names) < len(members):
            raise ParseError(f"The body holds the name {names.most_common(1)[0][0][:100]!r} twice in one object.")

    json.loads(raw, object_pairs_hook=one_each)


class AlwaysJson(BaseContentNegotiation):
    """Whatever a client says it accepts, this API speaks JSON."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        coding = request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
        is_json = request.content_type.partition(";")[0].strip().lower() == "application/json"
        return parsers[0] if is_json and coding in {"", "identity"} else None

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type
