"""Every answer that a test gets is held against the published schema: its status, headers, media type and body.

The clients of the tests (in_process_api.py, api_client.py) call `must_be_published` for each answer, so no test has to ask.
"""

import json
import re
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import jsonschema_rs

from jobs.api.openapi import problems
from jobs.api.openapi.document import document
from jobs.api.openapi.parts import ANY_TYPE

# What a server, Django or the CORS library puts on any answer.
_ANYWHERE = {
    *(
        "allow",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cross-origin-opener-policy",
        "date",
    ),
    *("keep-alive", "referrer-policy", "server", "set-cookie", "transfer-encoding", "vary", "x-content-type-options"),
    *("x-frame-options",),
}
_CORS = "access-control-"
# What an address that is not in the schema, or a method that is not, is answered with.
_UNKNOWN_ADDRESS = {problems.PROBLEMS[code].status: code for code in ("not_found", *problems.ANYWHERE)}
_UNKNOWN_METHOD = {**_UNKNOWN_ADDRESS, 401: "unauthorized", 405: "method_not_allowed"}
_making = threading.RLock()
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_OTHERS = re.compile(r"/(admin|static)(/|$)")


class NotPublished(AssertionError):
    """An answer that the published schema does not tell of."""


def must_be_published(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Raises NotPublished. `headers` of the answer; names in any case. What is no part of the API passes."""
    if not _OTHERS.match(path):
        _Answered(method, path, status, {name.lower(): value for name, value in headers.items()}, body).check()


def as_published(response: httpx.Response) -> httpx.Response:
    """The same answer. Raises NotPublished."""
    request, body = response.request, response.read()
    must_be_published(request.method, request.url.path, response.status_code, response.headers, body)
    return response


class _Answered:
    """One answer."""

    def __init__(self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self._method, self._path, self._status, self._headers, self._body = method, path, status, headers, body

    def check(self) -> None:
        item = _path_item(self._path)
        operation = (item or {}).get("get" if self._method == "HEAD" else self._method.lower())
        self._must(operation is None or self._method == self._method.upper(), "its method is not the operation's")
        if operation is not None:
            self._like_the_operation(operation)
        elif not (self._is_preflight() or self._leads_to_its_slash()):
            self._like_a_problem(_UNKNOWN_ADDRESS if item is None else _UNKNOWN_METHOD)

    def _is_preflight(self) -> bool:
        return self._method == "OPTIONS" and self._status == 200 and self._body == b""

    def _leads_to_its_slash(self) -> bool:
        there = f"{self._path}/"
        return self._status == 301 and self._headers.get("location") == there and _path_item(there) is not None

    def _like_the_operation(self, operation: dict[str, Any]) -> None:
        response = operation["responses"].get(str(self._status))
        self._must(response is not None, f"status {self._status} is not published for it")
        self._like_headers(response["headers"])
        if "content" not in response:
            self._must(self._body == b"", "it has a body")
            self._must("content-type" not in self._headers, "it has the media type of a body")
        elif self._method == "HEAD":
            self._must(self._body == b"", "it has a body")
        else:
            self._like_content(response["content"])

    def _like_headers(self, published: dict[str, Any]) -> None:
        names = {name.lower(): _resolved(header) for name, header in published.items()}
        unknown = {name for name in self._headers if not name.startswith(_CORS)} - names.keys() - _ANYWHERE
        self._must(not unknown, f"headers {sorted(unknown)} are not published")
        missing = {name for name, header in names.items() if header.get("required")} - self._headers.keys()
        self._must(not missing, f"headers {sorted(missing)} are missing")
        for name in names.keys() & self._headers.keys():
            self._like(names[name]["schema"], _value(names[name]["schema"], self._headers[name]), name)

    def _like_content(self, content: dict[str, Any]) -> None:
        media = self._headers.get("content-type", "").partition(";")[0]
        if media not in content and ANY_TYPE in content:
            self._must(bool(_MEDIA_TYPE.fullmatch(media)), f"{media!r} is no media type")
            return  # a file, of whatever its author says
        self._must(media in content, f"media type {media!r} is not published")
        schema = content[media]["schema"]
        if media.endswith("json"):
            value = self._json()
            self._like(schema, value, "body")
            self._like_retryable(media, value)

    def _like_a_problem(self, codes: dict[int, str]) -> None:
        self._must(
            self._status in codes, f"status {self._status} is not that of an address or method that there is not"
        )
        self._must(self._headers.get("content-type") == "application/problem+json", "it is no problem")
        self._must("x-request-id" in self._headers, "it has no X-Request-Id")
        if self._method == "HEAD":
            return
        value = self._json()
        self._like({"$ref": f"#/components/schemas/Problem.{codes[self._status]}"}, value, "body")
        self._like_retryable("application/problem+json", value)

    def _like_retryable(self, media: str, value: Any) -> None:
        if media == "application/problem+json":
            self._must(value["retryable"] == ("retry-after" in self._headers), "retryable and Retry-After disagree")
            self._must(self._headers.get("cache-control") == "no-store", "a refusal may be stored")

    def _json(self) -> Any:
        try:
            return json.loads(self._body)
        except ValueError as error:
            raise NotPublished(f"{self._named()}: no JSON: {error}") from None

    def _like(self, schema: dict[str, Any], value: Any, what: str) -> None:
        error = next(_validator(json.dumps(schema)).iter_errors(value), None)
        if error is not None:
            place = "/".join(map(str, error.instance_path))
            raise NotPublished(f"{self._named()}: {what} {place}: {error.message[:2000]}")

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise NotPublished(f"{self._named()}: {otherwise}")

    def _named(self) -> str:
        return f"{self._method} {self._path} → {self._status} {self._body[:500]!r}"


def _value(schema: dict[str, Any], given: str) -> Any:
    return int(given) if schema.get("type") == "integer" and given.isdecimal() else given


@cache
def _document() -> dict[str, Any]:
    return document()


def _paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    with _making:
        return _patterns()


@cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Those without a variable come first."""
    paths = sorted(_document()["paths"].items(), key=lambda item: "{" in item[0])
    return [(_pattern(path, item), item) for path, item in paths]


def _pattern(path: str, item: dict[str, Any]) -> re.Pattern[str]:
    found = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
    for parameter in item.get("parameters", []):
        found = found.replace(f"{{{parameter['name']}}}", parameter["schema"]["pattern"].strip("^$"))
    return re.compile(found)


def _path_item(path: str) -> dict[str, Any] | None:
    return next((item for pattern, item in _paths() if pattern.fullmatch(path)), None)


def _resolved(header: dict[str, Any]) -> dict[str, Any]:
    return dict(_document()["components"]["headers"][header["$ref"].rpartition("/")[2]]) if "$ref" in header else header


def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Each is made once: that takes milliseconds, to use it microseconds. Of two hundred threads that want it at once one makes it."""
    with _making:
        return _made(schema)


@cache
def _made(schema: str) -> jsonschema_rs.Draft202012Validator:
    whole = {**json.loads(schema), "components": {"schemas": _document()["components"]["schemas"]}}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
