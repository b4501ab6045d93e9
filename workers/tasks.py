"""Celery's entry points. Celery carries wake-ups and ticks; what is run is decided in the database."""

from typing import Any

import structlog
from celery import Task, shared_task
from pybreaker import CircuitBreakerError

from jobs import broker, sweeps, wakeups
from jobs.lifecycle import Claim
from workers import children, runner  # noqa: F401  children connects itself to the signals of Celery

log = structlog.get_logger(__name__)


@shared_task(name=wakeups.TASK, bind=True)
def wake_up(self: Task[Any, Any], cost_class: str) -> None:
    """There may be a job for you."""
    runner.run_next(cost_class, lambda claim: _show_in_flower(self, claim))


def _show_in_flower(task: Task[Any, Any], claim: Claim) -> None:
    """Put the job's type and id on this task's row. Only a hint: it may be lost."""
    try:
        broker.breaker.call(
            task.send_event,
            "task-received",
            name=claim.type,
            args="",
            kwargs=str({"job": str(claim.job_id), "attempt": claim.attempt}),
            root_id=task.request.root_id,
            parent_id=None,
            retry=False,
        )
    except CircuitBreakerError:
        pass
    except Exception as error:  # whatever a broken broker raises: the job runs all the same
        log.warning("event_not_sent", error=type(error).__name__)


@shared_task(name="weighbridge.tick", send_events=False)  # one a second would bury Flower
def tick() -> None:
    """A second has passed."""
    sweeps.run_due()
