"""A row that somebody holds, an operator's open transaction say, keeps no caller waiting."""

import threading

import pytest
from django.db import transaction

from jobs.models import Job
from tests.batch_calls import BATCHES, probes, submitted
from tests.in_process_api import BASE, InProcessApi, problem
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("what", ["job", "batch"])
def test_a_cancel_does_not_wait_for_ever_for_a_row_that_somebody_holds(other: Elsewhere, what: str) -> None:
    api = InProcessApi()
    if what == "job":
        job_id = api.submit()
        address = f"{BASE}/jobs/{job_id}"
    else:
        told = submitted(api, probes("a", "b"))
        job_id, address = told["jobs"]["b"], f"{BATCHES}/{told['id']}"
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=job_id)
            held.set()
            go_on.wait(30)

    holding = other.start(hold)
    assert held.wait(10)
    try:
        response = api.send("DELETE", address)
        assert problem(response, 503, "unavailable", retryable=True) == {}, "it is known that nothing was done"
        assert response.json()["detail"] == f"Somebody else is changing this {what} just now; nothing was done."
        assert set(Job.objects.values_list("state", flat=True)) == {"queued"}
    finally:
        go_on.set()
        holding.result(10)
    assert api.send("DELETE", address).json()["state"] == "cancelled"
