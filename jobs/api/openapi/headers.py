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
        "1 to 255 visible ASCII characters, quoted or not. The request may then be sent again: one job, batch or upload comes of it.",
        "order-17",
    ),
    "Prefer": (
        TEXT,
        f"`wait=N`: answer when the job or batch has ended, or after N seconds, at most {LONGEST_SECONDS}. `respond-async`: at once. "
        "What is no whole number is no preference, and passed over (RFC 7240); Preference-Applied in the answer says that it was heard.",
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
        "ETags of what the caller has: 304 if the job, or the file, is still that.",
        '"0123456789abcdef"',
    ),
    "If-Match": (TEXT, "ETags of states: 412 unless the job, or the file, is in one of them.", '"0123456789abcdef"'),
    "Content-Digest": (
        TEXT,
        "RFC 9530: what the body's SHA-256 is meant to be; another body is refused. Only `sha-256`, in lower case, is checked; other algorithms are passed over.",
        "sha-256=:+PHTGCpguiYyhBEO3ty2CNGF8LchEfpxOtejXNxiL6E=:",  # of the example of an upload
    ),
    "Range": (TEXT, "One range of bytes: the answer is then 206. Several are answered with the whole.", "bytes=0-99"),
    "If-Range": (TEXT, "The file's ETag: the range is meant only if it is still that file.", f'"{"0" * 64}"'),
    "X-Request-Id": (
        TEXT,
        "A name for this request, in the answer and in logs: a word of at most 128 characters.",
        "shop-17",
    ),
}

# As REQUEST. A name with a dot and a word behind it is the same header elsewhere.
RESPONSE: dict[str, tuple[dict[str, Any], str, Any]] = {
    "X-Request-Id": (ID, "The request's name in our logs.", "shop-17"),
    "Cache-Control": ({"type": "string", "const": "no-store"}, "A refusal holds for this moment only.", "no-store"),
    "Cache-Control.file": (
        {"type": "string", "const": "private, no-cache"},
        "It may be kept by its caller, who asks each time whether it is still that.",
        "private, no-cache",
    ),
    "Retry-After": (WHOLE, "Seconds after which to ask again.", 1),
    "Location": (
        {"type": "string", "pattern": "^/api/v1/"},
        "Where the job, batch or upload is.",
        "/api/v1/jobs/0193e3a0-5c1e-7b6a-9f7e-2f6a4c3d9b10",
    ),
    "ETag": (
        {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
        "Names this state of the job.",
        '"0123456789abcdef0123456789abcdef"',
    ),
    "ETag.file": ({"type": "string", "pattern": '^"[0-9a-f]{64}"$'}, "The file's SHA-256.", f'"{"0" * 64}"'),
    "ETag.now": (
        {"type": "string", "pattern": '^"[0-9a-f]{32}([0-9a-f]{32})?"$'},
        "Names what it is now: the state of the job, or the file.",
        '"0123456789abcdef0123456789abcdef"',
    ),
    "Accept-Ranges": ({"type": "string", "const": "bytes"}, "A part of it can be asked for.", "bytes"),
    "Content-Range": (
        {"type": "string", "pattern": r"^bytes ([0-9]+-[0-9]+|\*)/[0-9]+$"},
        "Which bytes these are, and of how many.",
        "bytes 0-99/1048576",
    ),
    "Content-Disposition": (
        {"type": "string", "pattern": "^attachment(; filename.+)?$"},
        "The file's name.",
        'attachment; filename="table.csv"',
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
        "The job, batch or upload was made by an earlier request of this key.",
        "true",
    ),
    "RateLimit": (
        {"type": "string", "pattern": '^"(submits|jobs)";r=[0-9]+;t=[0-9]+$'},
        "What is left of the quota.",
        '"submits";r=12;t=3',
    ),
    "RateLimit-Policy": (
        {"type": "string", "pattern": '^("submits";q=[0-9]+;w=[0-9]+|"jobs";q=[0-9]+)$'},
        "The quota: of submits in a window of seconds, or of jobs at once.",
        '"submits";q=60;w=60',
    ),
    "WWW-Authenticate": ({"type": "string", "const": "Bearer"}, "How to say who asks.", "Bearer"),
    "Allow": (TEXT, "The methods of this address.", "GET, POST"),
    "Content-Security-Policy": (TEXT, "What the page may load: nothing from elsewhere.", "default-src 'none'"),
}


def name_of(key: str) -> str:
    """What an answer calls it."""
    return key.partition(".")[0]
