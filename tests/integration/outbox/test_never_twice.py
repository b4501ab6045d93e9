"""An entry makes one job, whoever tries it, dies or comes back."""

import pytest
from django.db import transaction

from jobs import admission
from jobs.models import Job, OutboxEntry
from jobs.submit import outbox
from tests.outbox_calls import (
    HEAVY,
    Rollback,
    admission_of,
    asked_for,
    entry_of,
    later,
    process_dies_at_the_commit,
    told,
)
from tests.second_connections import Elsewhere, at_once
from tests.waiting import eventually

pytestmark = pytest.mark.django_db
really_committed = pytest.mark.django_db(transaction=True)


@really_committed
def test_four_sweeps_at_once_make_one_job_of_each_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    def round_in_which_several_admitted() -> bool:
        with process_dies_at_the_commit(monkeypatch):
            given = [later() for _ in range(5)]
        ended = at_once(*[outbox.run_once] * 4)
        outbox.run_once()
        assert sum(ended) <= 5
        assert {told(each) for each in given} == {("admitted", "")}
        assert len({entry_of(each).job_id for each in given}) == 5
        assert Job.objects.count() == 5
        OutboxEntry.objects.all().delete()
        Job.objects.all().delete()
        return sum(one > 0 for one in ended) > 1

    eventually(round_in_which_several_admitted, within_seconds=60, every_seconds=0)


@really_committed
def test_whoever_comes_while_somebody_has_the_entry_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch, other: Elsewhere
) -> None:
    """Its row is held from before the locks of admission to the commit; nobody waits for it (P6)."""
    with process_dies_at_the_commit(monkeypatch):
        given = asked_for()
    with transaction.atomic():
        OutboxEntry.objects.select_for_update().get(pk=given.entry_id)
        assert other.run(lambda: outbox.try_one(given.entry_id), within_seconds=5) == "gone"
    assert (told(given), Job.objects.count()) == (("waiting", ""), 0)
    assert outbox.run_once() == 1
    assert (told(given), Job.objects.count()) == (("admitted", ""), 1)


def test_an_entry_that_has_ended_admits_nothing_whoever_still_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_dies_at_the_commit(monkeypatch):
        given = later()
    asked = admission_of(given)
    assert outbox.run_once() == 1
    with pytest.raises(admission.EntryGone):
        admission.submit(asked)
    OutboxEntry.objects.all().delete()
    assert outbox.try_one(given.entry_id) == "gone"
    assert Job.objects.count() == 1


def test_a_crash_after_the_admission_cannot_part_the_job_from_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement makes the job and marks the entry: whoever dies with its answer has done both or nothing."""

    def die(self: object, *given: object) -> None:
        raise KeyboardInterrupt

    with process_dies_at_the_commit(monkeypatch):
        given = later()
    with monkeypatch.context() as dying:
        dying.setattr(admission, "_as_row", die)
        with pytest.raises(KeyboardInterrupt):
            outbox.run_once()
    assert (told(given), Job.objects.count()) == (("admitted", ""), 1)
    assert outbox.run_once() == 0
    assert Job.objects.count() == 1


def test_an_admission_that_is_rolled_back_leaves_the_entry_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_dies_at_the_commit(monkeypatch):
        given = later()
    with pytest.raises(Rollback), transaction.atomic():
        admission.submit(admission_of(given))
        assert told(given) == ("admitted", "")
        raise Rollback
    assert (told(given), Job.objects.count()) == (("waiting", ""), 0)


@really_committed
def test_a_refused_try_writes_no_job_and_holds_no_row(full: None) -> None:
    given = later(HEAVY)
    with transaction.atomic():
        OutboxEntry.objects.select_for_update(nowait=True).get(pk=given.entry_id)
    assert Job.objects.count() == 8
