"""What a handler is given: its params, its time, and a way to tell how far it is."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, cast, overload
from uuid import UUID

from pydantic import BaseModel

from workers.failures import JobCancelled, JobTimeout

if TYPE_CHECKING:  # loading an HTTP client takes time that most handlers need not spend
    from workers.artifacts import Artifacts
    from workers.deadlines import Deadline
    from workers.fanout import CallOutcome
    from workers.http import Call, Http

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")

PROGRESS_SECONDS = 1.0  # one write a second is all a person can see


class JobContext(Generic[P]):
    """One attempt of one job, as its handler sees it.

    params: the validated params model.
    job_id, attempt: which job, and the how-manieth start of it (from 1).
    log: a structlog logger that carries both.
    artifacts: what makes files for the job's caller; see workers.artifacts.
    """

    def __init__(
        self,
        params: P,
        *,
        job_id: UUID,
        attempt: int,
        limit_seconds: float,
        log: Any,
        report: Callable[[float, str], None],
        once: Callable[[str, Callable[[], Any] | None], Any],
        cancelled: Callable[[], bool] = lambda: False,
        stopping: Callable[[], bool] = lambda: False,
        job_retries: bool = False,
        traceparent: str = "",
        http: Any = None,
        fan_out: Callable[..., Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        report_at_the_end: Callable[[float, str], None] = lambda fraction, note: None,
        artifacts: "Artifacts",
        open_upload: Callable[[str], BinaryIO],
    ) -> None:
        self.params = params
        self.job_id = job_id
        self.attempt = attempt
        self.log = log
        self._job_retries = job_retries
        self._traceparent = traceparent
        self._given_http = http
        self._given_fan_out = fan_out
        self._clock = clock
        self._ends_at = clock() + limit_seconds
        self._cancelled = cancelled
        self._stopping = stopping
        self._report, self._report_at_the_end = report, report_at_the_end
        self._once = once
        self.artifacts = artifacts
        self._open_upload = open_upload
        self._reported_at: float | None = None
        self._one_effect_at_a_time = threading.RLock()

    @property
    def deadline(self) -> "Deadline":
        """When this attempt's limit is over; `deadline.at` is that instant of this machine's time.monotonic()."""
        from workers.deadlines import Deadline

        return Deadline(self._ends_at, self._clock)

    def remaining(self) -> float:
        """Seconds left of this attempt's limit, by this machine's monotonic clock; never negative."""
        return max(0.0, self._ends_at - self._clock())

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled; JobCancelled is raised inside the handler as well."""
        return self._cancelled()

    @property
    def stopping(self) -> bool:
        """Whether the worker was told to stop. What has not ended after the grace is given back, without blame."""
        return self._stopping()

    def check(self) -> None:
        """Call this between steps of long work. Raises JobCancelled or JobTimeout if it is to end."""
        if self.cancelled:
            raise JobCancelled
        if self.remaining() == 0.0:
            raise JobTimeout

    @cached_property
    def http(self) -> "Http":
        """A client whose every step is bounded by what remains. It repeats what is safe to repeat, unless the job itself
        is tried again. Its calls raise CallFailed, by kind, and DeadlineExceeded; see workers.http."""
        if self._given_http is not None:
            return cast("Http", self._given_http)
        from workers.http import Http

        return Http(
            self.deadline, self.job_id, job_retries=self._job_retries, check=self.check, traceparent=self._traceparent
        )

    def fan_out(
        self, calls: "Mapping[str, Call]", deadline: "Deadline | float", *, required: Collection[str] = ()
    ) -> "dict[str, CallOutcome]":
        """Make named calls at once; what each brought by the deadline (seconds from now, or a Deadline such as
        `ctx.deadline`), an outcome for each name.

        A failed call that is `required` stops the others and raises RequiredCallFailed. Raises ValueError if a required
        name is none of the calls'. See workers.fanout.
        """
        if self._given_fan_out is not None:
            return cast("dict[str, CallOutcome]", self._given_fan_out(calls, deadline, required=required))
        from workers.fanout import fan_out

        return fan_out(calls, deadline, http=self.http, required=required)

    def progress(self, fraction: float, note: str = "") -> None:
        """Show how far the job is: 0 to 1, and a few words. Cheap: written at most once a second, and the last at the end."""
        fraction, now = min(1.0, max(0.0, fraction)), self._clock()
        if self._reported_at is not None and now - self._reported_at < PROGRESS_SECONDS:
            self._report_at_the_end(fraction, note)
            return
        self._reported_at = now
        self._report(fraction, note)

    def open_upload(self, upload_id: str) -> BinaryIO:
        """An upload of the job's client, which a field of type UploadId names, as a binary file to read; close it, or use `with`.

        Raises Fail (upload_gone) when it is there no more.
        """
        return self._open_upload(upload_id)

    @overload
    def once(self, key: str) -> bool: ...
    @overload
    def once(self, key: str, fn: Callable[[], R]) -> R: ...
    def once(self, key: str, fn: Callable[[], Any] | None = None) -> Any:
        """Have an effect once per job, however many attempts the job takes.

        With fn: run it, keep its result, JSON-able data, under the key, and return it; a later call, also in a later
        attempt, returns what was kept and runs nothing. A crash between the effect and the keeping repeats it.
        Alone: True exactly once, said before the effect, which a crash may then leave undone.

        key: 1 to 200 characters. Raises ValueError for a key or a result that cannot be kept, LeaseLost when the job is
        somebody else's by now. Inside `transaction.atomic()` it is kept, or undone, with that transaction. Of several
        threads one after the other has its effect.
        """
        with self._one_effect_at_a_time:
            return self._once(key, fn)
