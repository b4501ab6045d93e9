"""Jobs that a transaction asks for, as tests of the outbox need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import TestCase

from jobs.door import asking
from jobs.door.submission import Submission
from jobs.models import Job, OutboxEntry
from jobs.submit import IN_PROCESS, Deferred, calls, outbox, submit
from tests.in_process_api import PROBE

PARAMS = {"seconds": 0}
HEAVY = {"seconds": 0, "cost_class": "heavy"}


class Rollback(Exception):
    pass


def asked_for(params: dict[str, Any] = PARAMS, **fields: Any) -> Deferred:
    """In the transaction that is open."""
    return submit(PROBE, params, on_commit=True, **fields)


def later(params: dict[str, Any] = PARAMS, **fields: Any) -> Deferred:
    """In a transaction of its own, which is committed; as far as Django's TestCase lets it be."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        return asked_for(params, **fields)


def entry_of(deferred: Deferred) -> OutboxEntry:
    return OutboxEntry.objects.select_related("job").get(pk=deferred.entry_id)


def told(deferred: Deferred) -> tuple[str, str]:
    entry = entry_of(deferred)
    return entry.state, entry.reason


@contextmanager
def process_dies_at_the_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the commit itself did stays; what was to follow it does not happen."""
    with monkeypatch.context() as dying:
        dying.setattr(outbox, "_try_at_once", lambda entry_id: None)
        yield


def make_room() -> None:
    Job.objects.filter(cost_class="heavy", state="queued").update(state="cancelled", finished_at=Now())


def come_due() -> None:
    OutboxEntry.objects.filter(state="waiting").update(try_at=Now())


def time_is_over() -> None:
    OutboxEntry.objects.filter(state="waiting").update(try_at=Now(), try_until=Now())


def admission_of(given: Deferred) -> Submission:
    entry = OutboxEntry.objects.select_related("client").get(pk=given.entry_id)
    return asking.submission(outbox._as_asked(entry), entry.client or calls.client_named(IN_PROCESS), entry.pk)
