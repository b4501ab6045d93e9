"""Telling an error tracker. The runner catches what handlers raise, so a tracker would see only success."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import Thread
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.utils.module_loading import import_string

from jobs.leases import Lease
from jobs.lifecycle import Claim

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FailedJob:
    """What the hook is told beside the exception; never params or results."""

    id: UUID
    type: str
    cost_class: str
    attempt: int
    max_attempts: int
    request_id: str


def attempt_failed(error: BaseException, held: Claim | Lease) -> None:
    """Call the function that WEIGHBRIDGE_ON_ATTEMPT_FAILED names, if any. What it raises is logged, no more."""
    failed = FailedJob(held.job_id, held.type, held.cost_class, held.attempt, held.max_attempts, held.request_id)
    try:
        hook = on_attempt_failed(settings.WEIGHBRIDGE_ON_ATTEMPT_FAILED)
        if hook is not None:
            hook(error, failed)
    except BaseException as raised:  # a SystemExit of the tracker is no reason to end
        log.error("on_attempt_failed_raised", error=type(raised).__name__)


def from_the_keeper(error: BaseException, lease: Lease) -> None:
    """Of an attempt whose child did not live to tell. In a thread: a tracker that hangs must not hold up a lease."""
    Thread(target=attempt_failed, args=(error, lease), name="on-attempt-failed", daemon=True).start()


@cache
def on_attempt_failed(path: str) -> Callable[[BaseException, FailedJob], Any] | None:
    return import_string(path) if path else None
