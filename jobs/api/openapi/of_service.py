"""Health, metrics, and the documentation itself."""

from jobs.api.openapi import shapes
from jobs.api.openapi.formats import FormatQuery
from jobs.api.openapi.parts import YAML, AnswerType, Operation

_PAGE = {"Content-Security-Policy": True}

OPERATIONS = (
    Operation(
        "GET",
        "/healthz",
        "healthz",
        "Does this process live?",
        tag="Health",
        description="Asks nobody; for supervisors.",
        answers=(AnswerType(200, "It lives.", shapes.Alive, {"alive": {"status": "ok"}}),),
    ),
    Operation(
        "GET",
        "/readyz",
        "readyz",
        "Can jobs be accepted?",
        tag="Health",
        answers=(
            AnswerType(
                200,
                "They can.",
                shapes.Ready,
                {
                    "all is well": {
                        "status": "ok",
                        "database": "ok",
                        "broker": "ok",
                        "classes": {"light": {"slots": 2, "consuming": True, "paused": False, "draining": False}},
                    }
                },
            ),
            AnswerType(
                503,
                "They cannot.",
                shapes.NotReady,
                {"without a database": {"status": "unavailable", "database": "away"}},
                {"Retry-After": True},
            ),
        ),
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics",
        "Prometheus metrics",
        tag="Health",
        description="Open on loopback; from elsewhere, and through a proxy, a key with `ops:read` is needed.",
        answers=(
            AnswerType(
                200,
                "Prometheus's text format.",
                {},
                {"one gauge": 'jobs_waiting{cost_class="light"} 3.0\n'},
                media="text/plain",
            ),
        ),
        problems=("forbidden",),
    ),
    Operation(
        "GET",
        "/api/schema/",
        "readSchema",
        "This document",
        tag="Documentation",
        description=(
            "As JSON, or as YAML by `format=yaml` or the Accept header. The params of the job types are in it on loopback; "
            "from elsewhere, and through a proxy, for a key with `jobs:read`."
        ),
        query=FormatQuery,
        answers=(
            AnswerType(200, "An OpenAPI document.", {"type": "object"}, {}, {"Vary": True}),
            AnswerType(200, "The same as YAML.", {"type": "object"}, {}, {"Vary": True}, media=YAML),
        ),
        problems=("invalid_request",),
    ),
    Operation(
        "GET",
        "/api/docs/",
        "readDocs",
        "This document as a page",
        tag="Documentation",
        answers=(AnswerType(200, "A page.", {}, {}, _PAGE, media="text/html"),),
    ),
    Operation(
        "GET",
        "/",
        "readStart",
        "Where everything is",
        tag="Documentation",
        answers=(AnswerType(200, "A page.", {}, {}, _PAGE, media="text/html"),),
    ),
)
