"""What people open first: where everything is, the API's schema, and its documentation as a page.

Open to all. Which job types there are is a matter for those who may ask GET /api/v1/types, or come from this machine.
"""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from jobs.api.errors import Problem
from jobs.api.openapi import formats
from jobs.api.openapi.formats import Format
from jobs.api.requests import from_loopback, has_scope
from jobs.keys import READ

# Everything comes from this host; Swagger UI's own style sheet has its pictures in it.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def start(request: HttpRequest) -> HttpResponse:
    return _page(request, "jobs/api/start.html")


def docs(request: HttpRequest) -> HttpResponse:
    return _page(request, "jobs/api/docs.html")


def schema(request: HttpRequest) -> HttpResponse:
    try:
        form = formats.asked(request.GET, request.headers.get("Accept", ""))
    except Problem as problem:
        return problem.response()
    text = _text(form, from_loopback(request) or has_scope(request, READ))
    return HttpResponse(text, content_type=formats.MEDIA[form], headers={"Vary": "Accept, Authorization"})


@cache
def _text(form: Format, with_types: bool) -> str:
    """Job types are registered before the first request, and stay."""
    from jobs.api.openapi.document import (
        document,
    )  # its models cost each web process's first caller 40 ms, who asks for a job

    return formats.written(document(with_types), form)


def _page(request: HttpRequest, template: str) -> HttpResponse:
    response = render(request, template)
    response.headers["Content-Security-Policy"] = _CONTENT_SECURITY_POLICY
    return response
