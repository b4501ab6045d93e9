"""Four processes sweep one outbox: each entry becomes one job, and the class takes no more than it has room for (P1, P2)."""

import pytest
from django.db import transaction

from jobs import classes
from jobs.models import Job, OutboxEntry
from jobs.submit import outbox, submit
from tests.concurrency.crowd import Crowd, rounds_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("beyond_room", [False, True])
def test_each_entry_becomes_one_job_whoever_sweeps(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, beyond_room: bool
) -> None:
    monkeypatch.setattr(outbox, "_try_at_once", lambda entry_id: None)  # as if each process had died at its commit
    room = classes.get("light").max_waiting
    entries = room + 20 if beyond_room else 40
    shared: list[list[int]] = []
    for _ in rounds_until(lambda: len(shared) >= 3, at_least=3, at_most=20):
        with transaction.atomic():
            for _ in range(entries):
                submit("probe.sleep", {"seconds": 0}, on_commit=True)
        ended = crowd.all_do("sweep_outbox", runs=3)
        if sum(count > 0 for count in ended) > 1:
            shared.append(ended)
        admitted = OutboxEntry.objects.filter(state="admitted")
        assert sum(ended) == admitted.count() == Job.objects.count() == min(entries, room)
        assert admitted.values("job").distinct().count() == min(entries, room)
        assert OutboxEntry.objects.filter(state="waiting").count() == max(0, entries - room)
        OutboxEntry.objects.all().delete()
        Job.objects.all().delete()
    print(f"rounds that several processes shared: {shared}")
    assert len(shared) >= 3
