"""A caller, as it may know itself."""

from collections.abc import Collection
from typing import Any

from jobs.api.batch_bodies import MOST_ITEMS
from jobs.api.bodies import BATCH_BYTES, limit_bytes
from jobs.api.pages import LARGEST_PAGE
from jobs.api.waiting import LONGEST_SECONDS
from jobs.door import LONGEST_DEADLINE_SECONDS, MOST_LABELS
from jobs.models import ApiClient


def shown(row: ApiClient, scopes: Collection[str], live_jobs: int) -> dict[str, Any]:
    """What it may do, how much of it, and how large."""
    return {
        "name": row.name,
        "scopes": sorted(scopes),
        "quotas": {
            "submits_per_minute": row.submits_per_minute,
            "max_jobs": row.max_jobs,
            "jobs": live_jobs,
        },
        "limits": {
            "body_bytes": limit_bytes(),
            "batch_jobs": MOST_ITEMS,
            "batch_bytes": BATCH_BYTES,
            "labels": MOST_LABELS,
            "page_size": LARGEST_PAGE,
            "wait_seconds": LONGEST_SECONDS,
            "deadline_seconds": LONGEST_DEADLINE_SECONDS,
        },
    }
