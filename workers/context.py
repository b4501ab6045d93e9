"""What a handler is given: its params, its time, and a way to tell how far it is."""

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel

P = TypeVar("P", bound=BaseModel)

PROGRESS_SECONDS = 1.0  # one write a second is all a person can see


class JobContext(Generic[P]):
    """One attempt of one job, as its handler sees it.

    params: the validated params model.
    job_id, attempt: which job, and the how-manieth start of it (from 1).
    log: a structlog logger that carries both.
    """

    def __init__(
        self,
        params: P,
        *,
        job_id: UUID,
        attempt: int,
        timeout_seconds: float,
        log: Any,
        report: Callable[[float, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.params = params
        self.job_id = job_id
        self.attempt = attempt
        self.log = log
        self._clock = clock
        self._ends_at = clock() + timeout_seconds
        self._report = report
        self._reported_at: float | None = None

    def remaining(self) -> float:
        """Seconds left of this attempt's limit, by this machine's monotonic clock; never negative."""
        return max(0.0, self._ends_at - self._clock())

    def check(self) -> None:
        """Call this between steps of long work; later, a job that must end is ended here."""

    def progress(self, fraction: float, note: str = "") -> None:
        """Show how far the job is: 0 to 1, and a few words. Cheap to call; written at most once a second."""
        now = self._clock()
        if self._reported_at is not None and now - self._reported_at < PROGRESS_SECONDS:
            return
        self._reported_at = now
        self._report(min(1.0, max(0.0, fraction)), note[:200].replace("\0", ""))
