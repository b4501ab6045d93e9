"""What takes the place of the door in a test: it keeps what was asked for, and answers as the door would, with rows that are in no database."""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from django.db import connection, transaction

from jobs import classes
from jobs.admission import Admitted, Rejected, Replayed
from jobs.door import asking
from jobs.door.asking import AskedJob
from jobs.door.idempotency import Mismatch
from jobs.door.submission import Submission
from jobs.entrance import Answer
from jobs.models import ApiClient, Job
from jobs.states import Refusal, State
from jobs.submit import Deferred


@dataclass
class _Ask:
    """One call. One with `on_commit` stands from the commit on, or while its transaction is open and may still be committed."""

    asked: AskedJob
    taken: bool = False

    def stands(self) -> bool:
        return self.taken or any(getattr(waiting[1], "ask", None) is self for waiting in connection.run_on_commit)


@dataclass
class Submitted:
    """`refused`: what was asked for and refused. Params that do not fit raise InvalidJob as they do at the door.

    `uploads`: files by their id, what keep_upload kept and what the test puts there. Params may name others too: no database is asked for them.
    """

    refused: list[AskedJob] = field(default_factory=list)
    uploads: dict[str, bytes | str | os.PathLike[str]] = field(default_factory=dict)
    _asks: list[_Ask] = field(default_factory=list)
    _refusal: tuple[Refusal, int] | None = None
    _under_keys: dict[tuple[str, str], tuple[str, Job]] = field(default_factory=dict)

    @property
    def jobs(self) -> list[AskedJob]:
        """What was accepted, in the order of the calls. What was asked for in a transaction that was rolled back is not among it."""
        return [ask.asked for ask in self._asks if ask.stands()]

    def refuse(self, reason: Refusal = "queue_full", retry_after_seconds: int = 5) -> None:
        """From now on the answer is Rejected; not of calls with `on_commit`, which never see one."""
        self._refusal = (reason, retry_after_seconds)

    def accept(self) -> None:
        """From now on jobs are accepted again."""
        self._refusal = None

    def __call__(self, asked: AskedJob, on_commit: bool) -> Answer | Deferred:
        submission = _submission(asked)
        if on_commit:
            self._defer(_Ask(asked))
            return Deferred(uuid4())
        if (known := self._known(asked)) is not None:
            return Replayed(known)
        if self._refusal is not None:
            self.refused.append(asked)
            return Rejected(*self._refusal, submission.cost_class)
        return Admitted(self._accept(_Ask(asked)))

    def keep(self, content: bytes) -> str:
        """In the place of the storage."""
        upload_id = str(uuid4())
        self.uploads[upload_id] = content
        return upload_id

    def _defer(self, ask: _Ask) -> None:
        self._asks.append(ask)

        def committed() -> None:
            try:
                if not ask.taken and self._known(ask.asked) is None:
                    self._take(ask)
            except Mismatch:  # nobody who commits is told: the entry would be given up
                self.refused.append(ask.asked)

        committed.ask = ask  # type: ignore[attr-defined]  # by which it is found again among what waits for the commit
        if connection.in_atomic_block:
            transaction.on_commit(committed)
        else:
            committed()

    def _accept(self, ask: _Ask) -> Job:
        self._asks.append(ask)
        return self._take(ask)

    def _known(self, asked: AskedJob) -> Job | None:
        if asked.idempotency is None:
            return None
        fingerprint, job = self._under_keys.get((asked.client, asked.idempotency.key), ("", None))
        if job is not None and fingerprint != asked.idempotency.fingerprint:
            raise Mismatch(asked.idempotency.key)
        return job

    def _take(self, ask: _Ask) -> Job:
        ask.taken = True
        job = self.become(ask.asked)
        if ask.asked.idempotency is not None:
            self._under_keys[ask.asked.client, ask.asked.idempotency.key] = (ask.asked.idempotency.fingerprint, job)
        return job

    def become(self, asked: AskedJob) -> Job:
        """The job that it is now: in no database, and queued."""
        submission, now = _submission(asked), datetime.now(UTC)
        return Job(
            id=uuid4(),
            client=submission.client,
            type=submission.type,
            cost_class=submission.cost_class.name,
            params=submission.params,
            labels=submission.labels,
            state=State.QUEUED.value,
            admitted_bound=classes.get(submission.cost_class.name).max_waiting,
            accepted_at=now,
            available_at=now,
            deadline_at=submission.deadline_at,
            timeout_seconds=submission.timeout_seconds,
            priority=submission.priority,
            flow=submission.flow,
            expected_seconds=submission.declared_cost_seconds,
            cost_seconds=submission.declared_cost_seconds or 1.0,
            max_attempts=submission.max_attempts,
            max_deliveries=submission.max_deliveries,
            attempt=0,
            failures=0,
            error_code="",
            error_message="",
        )


def _submission(asked: AskedJob) -> Submission:
    return asking.submission(asked, ApiClient(name=asked.client), ask_database=False)
