"""Headers of requests and of answers, by name."""

from typing import Any

from jobs.api.waiting import LONGEST_SECONDS

ID = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"}
WHOLE = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}

# name → (schema, what it says, example). Where the schema is any text, what cannot be read is ignored.
REQUEST: dict[str, tuple[dict[str, Any], str, Any]] = {
    "Idempotency-Key": (
        # Bare without comma, quote and backslash; or quoted, the last two then behind a backslash.
        {"type": "string", "pattern": r"""^([!#-+.-\[\]-~-]{1,255}|"([!#-\[\]-~]|\\["\\]){1,255}")$"""},
        "1 to 255 visible ASCII characters, quoted or not. The request may then be sent again: one job comes of it.",
        "order-17",
    ),
    "Prefer": (
        TEXT,
        f"`wait=N`: answer when the job has ended, or after N seconds, at most {LONGEST_SECONDS}. `respond-async`: at once.",
        "wait=20",
    ),
    "X-Deadline-Ms": (
        {"type": "string", "pattern": "^[0-9]{1,13}$"},
        "What remains of the caller's own time, in whole milliseconds. Of all deadlines the earliest counts.",
        "1200",
    ),
    "traceparent": (
        TEXT,
        "W3C trace context: the attempt's log lines and calls bear it.",
        "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    ),
    "X-Weighbridge-Job": (
        TEXT,
        "The id of the job on whose behalf this is asked.",
        "0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10",
    ),
    "If-None-Match": (
        TEXT,
        "ETags of states that the caller has: 304 if the job is in one of them.",
        '"0123456789abcdef"',
    ),
    "If-Match": (TEXT, "ETags of states: 412 unless the job is in one of them.", '"0123456789abcdef"'),
    "X-Request-Id": (
        TEXT,
        "A name for this request, in the answer and in logs: a word of at most 128 characters.",
        "shop-17",
    ),
}

RESPONSE: dict[str, tuple[dict[str, Any], str, Any]] = {
    "X-Request-Id": (ID, "The request's name in our logs.", "shop-17"),
    "Cache-Control": ({"type": "string", "const": "no-store"}, "A refusal holds for this moment only.", "no-store"),
    "Retry-After": (WHOLE, "Seconds after which to ask again.", 1),
    "Location": (
        {"type": "string", "pattern": "^/api/v1/"},
        "Where the job is.",
        "/api/v1/jobs/0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10",
    ),
    "ETag": (
        {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
        "Names this state of the job.",
        '"0123456789abcdef0123456789abcdef"',
    ),
    "Server-Timing": (
        {"type": "string", "pattern": r"^(queue|run);dur=[0-9.]+(, run;dur=[0-9.]+)?$"},
        "How long the job waited and ran, in milliseconds.",
        "queue;dur=800.0, run;dur=2100.0",
    ),
    "Vary": (TEXT, "What else the answer depends on.", "Prefer"),
    "Preference-Applied": (
        {"type": "string", "pattern": "^wait=[0-9]+$"},
        "How long the caller let itself be kept.",
        "wait=20",
    ),
    "Idempotency-Replayed": (
        {"type": "string", "const": "true"},
        "The job was made by an earlier request of this key.",
        "true",
    ),
    "RateLimit": (
        {"type": "string", "pattern": '^"submits";r=[0-9]+;t=[0-9]+$'},
        "What is left of the quota.",
        '"submits";r=12;t=3',
    ),
    "RateLimit-Policy": (
        {"type": "string", "pattern": '^"submits";q=[0-9]+;w=[0-9]+$'},
        "The quota.",
        '"submits";q=60;w=60',
    ),
    "WWW-Authenticate": ({"type": "string", "const": "Bearer"}, "How to say who asks.", "Bearer"),
    "Allow": (TEXT, "The methods of this address.", "GET, POST"),
    "Content-Security-Policy": (TEXT, "What the page may load: nothing from elsewhere.", "default-src 'none'"),
}
