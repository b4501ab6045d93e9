"""A job on its way in: what it says of itself, and, once that was weighed, what admission is asked for."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.classes import CostClass
from jobs.door.idempotency import Idempotency
from jobs.models import ApiClient


@dataclass(frozen=True, kw_only=True)
class Said:
    """What nothing on the way changes: an AskedJob, an outbox entry and a Submission have it by these names."""

    type: str
    params: dict[str, Any]
    labels: dict[str, str]
    flow: str = ""
    priority: int = 0  # -100 to 100, among the client's own jobs
    request_id: str = ""
    traceparent: str = ""


def said_of(holder: Said | Any) -> dict[str, Any]:
    """Of whatever has it, by name."""
    return {field.name: getattr(holder, field.name) for field in fields(Said)}


@dataclass(frozen=True, kw_only=True)
class Submission(Said):
    """One validated request for a job."""

    client: ApiClient
    cost_class: CostClass
    timeout_seconds: float
    max_wait_seconds: float
    deadline_in_seconds: float | None = None  # of this and deadline_at, the earlier counts
    deadline_at: datetime | None = None
    max_attempts: int = 1
    max_deliveries: int = 3
    idempotency: Idempotency | None = None
    outbox_id: UUID | None = None  # the entry that asks for it
    declared_cost_seconds: float | None = None  # of work; None: its type says nothing of it (P5)
    limit_keys: tuple[str, ...] = ()  # of which only so many jobs may run at once (P12)
