"""Celery's prefork pool, but for the end of a child: it may leave after any job, and then it is gone at once.

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
    on_exit: Callable[[int, int | None], None] | None

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
        # Or the parent takes the last task for lost.
        self._ensure_messages_consumed(completed=completed)  # type: ignore[attr-defined]
        self._do_exit(os.getpid(), os.EX_OK)

    def _do_exit(self, pid: int, exitcode: int | None, exc: BaseException | None = None) -> None:
        """At once. billiard would say farewell and rest for a second, until its parent answers with a TERM, of which our
        children take no notice; the parent sees the end of a process anyway."""
        if self.on_exit is not None:
            self.on_exit(pid, exitcode)
        os._exit((os.EX_SOFTWARE if exc else os.EX_OK) if exitcode is None else exitcode)


class Pool(asynpool.AsynPool):
    Worker = Child


class TaskPool(prefork.TaskPool):
    Pool = Pool
