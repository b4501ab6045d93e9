"""What all views of this API share."""

from typing import Any, cast

from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs.api import auth, bodies, errors, pages
from jobs.api.requests import is_without_its_body
from jobs.keys import READ
from jobs.models import ApiClient

POLL_AFTER_SECONDS = 1  # told to whoever asks for what has not ended


class View(APIView):
    """A view of this API; `scopes` names what a key needs for each method.

    What REST_FRAMEWORK says is a team's own to set, for views of its own: here it would let in whoever comes.
    """

    authentication_classes = (auth.BearerKey,)
    permission_classes = (auth.HasScope,)
    parser_classes = (bodies.JsonBody,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = bodies.AlwaysJson
    throttle_classes = ()
    versioning_class = None
    http_method_names = ["get", "head", "post", "patch", "delete"]
    says_who_may_send = False  # itself, of a request that comes without its body first
    owner: int | None = None  # the client, once it is known

    def get_exception_handler(self) -> Any:
        return errors.problem

    def perform_authentication(self, request: Request) -> None:
        super().perform_authentication(request)
        self.owner = caller_of(request).pk

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        pages.refuse_unreadable(request.META["QUERY_STRING"])
        if not self.says_who_may_send and is_without_its_body(request):
            raise _MaySend

    def handle_exception(self, exc: Exception) -> Any:
        return HttpResponse(status=100) if isinstance(exc, _MaySend) else super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """A server that counts what callers hold is told whose request it was."""
        response.owner = self.owner
        return super().finalize_response(request, response, *args, **kwargs)


class _MaySend(Exception):
    """Nothing is wrong with the caller, nor with the address; there is no more to be said without the body."""


def caller_of(request: Request) -> ApiClient:
    """Whom BearerKey let in."""
    return cast(ApiClient, request.user)


def may_read(request: Request) -> bool:
    """Who may submit or cancel, but not read, is told no results."""
    credentials: Any = request.auth
    return READ in credentials.scopes


def vary(request: Request) -> dict[str, str]:
    return {"Vary": "Prefer"} if "Prefer" in request.headers else {}


def when_to_ask(over: bool) -> dict[str, str]:
    return {} if over else {"Retry-After": str(POLL_AFTER_SECONDS)}
