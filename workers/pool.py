"""Celery's prefork pool, but for two ends of a child: it may leave after its last result, and soon.

Chosen by CELERY_WORKER_POOL. Imported by Celery's processes only, and before Django is set up.
"""

import os
from collections.abc import Callable
from typing import Any

from billiard import pool
from celery.concurrency import asynpool, prefork

# A child that ends waits so long for its parent to read its last result. billiard's own 30 s are seen in full when the
# parent, told to stop, joins the child instead of reading, as it now and then does. Nobody needs the result.
LAST_RESULT_SECONDS = 2.0


class Child(asynpool.Worker):
    """Looks for its next wake-up only if the last job left nothing of itself (workers.runner)."""

    wait_for_job: Callable[[], Any]

    def _make_child_methods(self, *args: Any, **kwargs: Any) -> None:
        super()._make_child_methods(*args, **kwargs)  # type: ignore[misc]
        self.wait_for_job = self._unless_it_leaves(self.wait_for_job)
        pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = round(
            LAST_RESULT_SECONDS / pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_INTERVAL
        )

    def _unless_it_leaves(self, receive: Callable[[], Any]) -> Callable[[], Any]:
        from workers import equipment

        taken = 0

        def receive_or_leave() -> Any:
            nonlocal taken
            if taken and equipment.mine().leaving.is_set():
                self._leave(taken)
            message = receive()
            taken += message is not None
            return message

        return receive_or_leave

    def _leave(self, completed: int) -> None:
        """At once: billiard's own way out rests for a second, and what is left of the job may not let it."""
        # Or the parent takes the last task for lost.
        self._ensure_messages_consumed(completed=completed)  # type: ignore[attr-defined]
        os._exit(0)


class Pool(asynpool.AsynPool):
    Worker = Child


class TaskPool(prefork.TaskPool):
    Pool = Pool
