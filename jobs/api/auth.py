"""Bearer keys and their scopes (P39)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from jobs import keys
from jobs.api.requests import bearer_of
from jobs.models import ApiClient

if TYPE_CHECKING:  # DRF's views import this module while they load
    from rest_framework.views import APIView


@dataclass(frozen=True)
class Credentials:
    """What a request was let in with."""

    scopes: frozenset[str]


class BearerKey(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[ApiClient, Credentials]:
        given = bearer_of(request.headers)
        if not given:
            raise AuthenticationFailed("Send a key: Authorization: Bearer <key>.")
        key = keys.live_key(given)
        if key is None:
            raise AuthenticationFailed("This key is not known, has expired or was revoked.")
        return key.client, Credentials(frozenset(key.scopes))

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """A view names the scope of each method in `scopes`, or several of which one is enough; a method without one is not allowed at all."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        needed = getattr(view, "scopes", {}).get("GET" if request.method == "HEAD" else str(request.method))
        if needed is None:
            methods = " and ".join(getattr(view, "scopes", {}))
            raise MethodNotAllowed(
                str(request.method), f"This address takes {methods}, not {str(request.method)[:20]}."
            )
        enough = keys.any_of(needed)
        self.message = f"The key lacks the scope {' or '.join(enough)}."
        credentials: Any = request.auth
        return not credentials.scopes.isdisjoint(enough)
