"""Worker nodes as the database knows them: registered by their keeper, live while they beat (P4, P15)."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models.functions import Now

from jobs.models import WorkerNode


@dataclass(frozen=True)
class Node:
    """One boot of one keeper."""

    id: UUID
    hostname: str
    pid: int
    cost_class: str
    processes: int
    types: tuple[str, ...]


def beat(node: Node) -> None:
    """Say that the node lives; register it if the database does not know it."""
    if not WorkerNode.objects.filter(pk=node.id).update(seen_at=Now()):
        WorkerNode.objects.create(
            id=node.id,
            hostname=node.hostname,
            pid=node.pid,
            cost_class=node.cost_class,
            processes=node.processes,
            types=list(node.types),
        )


def stopping(node_id: UUID) -> None:
    """From here on it claims nothing, and of its slots only those that still work count (P4)."""
    WorkerNode.objects.filter(pk=node_id, stopping_at=None).update(stopping_at=Now())


def stopped(node_id: UUID) -> None:
    WorkerNode.objects.filter(pk=node_id, stopped_at=None).update(stopped_at=Now())
