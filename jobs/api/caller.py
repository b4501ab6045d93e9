"""A caller, as it may know itself."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import queries
from jobs.api.batch_bodies import MOST_ITEMS
from jobs.api.bodies import BATCH_BYTES, limit_bytes
from jobs.api.pages import LARGEST_PAGE
from jobs.api.view import View, caller_of
from jobs.api.waiting import LONGEST_SECONDS
from jobs.door import quotas
from jobs.door.forms import LONGEST_DEADLINE_SECONDS, MOST_LABELS
from jobs.files import room
from jobs.keys import TO_LOOK, Needed
from jobs.models import ApiClient


@dataclass(frozen=True)
class Use:
    """What it has of what is limited."""

    submits: int | None
    jobs: int
    running: int
    uploads_bytes: int


class Client(View):
    scopes: Mapping[str, Needed] = {"GET": TO_LOOK}

    def get(self, request: Request) -> Response:
        credentials: Any = request.auth
        row = caller_of(request)
        use = Use(quotas.submitted(row), *queries.live_jobs_of(row.pk), room.use_of(row).kept_bytes)
        return Response(shown(row, credentials.scopes, use))


def shown(row: ApiClient, scopes: Collection[str], use: Use) -> dict[str, Any]:
    """What it may do, how much of it, and how large."""
    return {
        "name": row.name,
        "suspended": row.suspended_at is not None,
        "weight": row.weight,
        "scopes": sorted(scopes),
        "quotas": {
            "submits_per_minute": row.submits_per_minute,
            "submits": use.submits,
            "max_jobs": row.max_jobs,
            "jobs": use.jobs,
            "max_running": row.max_running,
            "running": use.running,
            "max_uploads_bytes": settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES,
            "uploads_bytes": use.uploads_bytes,
        },
        "limits": {
            "body_bytes": limit_bytes(),
            "batch_jobs": MOST_ITEMS,
            "batch_bytes": BATCH_BYTES,
            "upload_bytes": settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES,
            "labels": MOST_LABELS,
            "page_size": LARGEST_PAGE,
            "wait_seconds": LONGEST_SECONDS,
            "deadline_seconds": LONGEST_DEADLINE_SECONDS,
        },
    }
