"""A request that comes again under its Idempotency-Key is the request that was accepted, not another one (P6, P39a)."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs import telemetry
from jobs.models import IdempotencyKey, Job

# Callers compute what remains of their time anew for each try; the deadline of the first that was accepted stands.
NOT_IN_THE_FINGERPRINT = ("deadline_seconds", "deadline_at")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_BARE = re.compile(r"""[^",\\]*""")  # a comma joins two headers, which may be two keys; a quote that is open is none
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')


@dataclass(frozen=True)
class Idempotency:
    """A client's key, and the SHA-256 of the request that it sent under it."""

    key: str
    fingerprint: str


class BadKey(ValueError):
    """An Idempotency-Key that is none."""


class Mismatch(Exception):
    """The key was used for another request before."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The Idempotency-Key {key!r} was used for another request before; a new request needs a new key."
        )


def read(header: str, method: str, path: str, body: Any) -> Idempotency:
    """The header, quoted or not, and the request it came with; `body` is parsed JSON. Raises BadKey."""
    quoted = _QUOTED.fullmatch(header.strip())
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else header.strip()
    if not _KEY.fullmatch(key) or not (quoted or _BARE.fullmatch(key)):
        raise BadKey(
            "An Idempotency-Key is 1 to 255 visible ASCII characters; one with a comma, quote or backslash must be quoted."
        )
    return Idempotency(key, _fingerprint(method, path, body))


def of_call(key: str, body: Any) -> Idempotency:
    """A key that came with a call of `jobs.submit`, and what was asked. Raises BadKey."""
    return Idempotency(_checked(key), _fingerprint("CALL", "jobs.submit", body))


def of_item(key: str, path: str, body: Any) -> Idempotency:
    """An item's own key, as it stands in the body of a batch: it stands for the job that the item would be if it were
    POSTed to `path` by itself. Raises BadKey."""
    return Idempotency(_checked(key), _fingerprint("POST", path, body))


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise BadKey("A key is 1 to 255 visible ASCII characters.")
    return key


def _fingerprint(method: str, path: str, body: Any) -> str:
    body = _without_deadlines(body)
    if isinstance(body, dict) and isinstance(body.get("jobs"), dict):  # a batch's
        body["jobs"] = {name: _without_deadlines(item) for name, item in body["jobs"].items()}
    canonical = json.dumps([method, path, body], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _without_deadlines(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if name not in NOT_IN_THE_FINGERPRINT}


def job_under(client_id: int, asked: Idempotency) -> Job | None:
    """What was accepted under the key, if anything was. Raises Mismatch. Keys of other clients are no concern."""
    stored = _stored(client_id, asked)
    if stored is None or stored.job is None:
        return None
    telemetry.REPLAYED.labels(stored.job.cost_class).inc()
    return stored.job


def batch_under(client_id: int, asked: Idempotency) -> UUID | None:
    """The id of the batch that was accepted under the key, if one was. Raises Mismatch."""
    stored = _stored(client_id, asked)
    if stored is None or stored.batch_id is None:
        return None
    telemetry.BATCHES_REPLAYED.inc()
    return stored.batch_id


def _stored(client_id: int, asked: Idempotency) -> IdempotencyKey | None:
    stored = IdempotencyKey.objects.select_related("job").filter(client_id=client_id, key=asked.key).first()
    if stored is not None and stored.fingerprint != asked.fingerprint:
        raise Mismatch(asked.key)
    return stored
