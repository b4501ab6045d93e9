"""A row that somebody holds, an operator's open transaction say, keeps no caller waiting."""

import threading

import pytest
from django.db import transaction

from jobs.models import Job
from tests.in_process_api import BASE, InProcessApi, problem
from tests.second_connections import Elsewhere

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_cancel_does_not_wait_for_ever_for_a_row_that_somebody_holds(other: Elsewhere) -> None:
    api = InProcessApi()
    job_id = api.submit()
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=job_id)
            held.set()
            go_on.wait(30)

    holding = other.start(hold)
    assert held.wait(10)
    try:
        response = api.send("DELETE", f"{BASE}/jobs/{job_id}")
        assert problem(response, 503, "unavailable", retryable=True) == {}, "it is known that nothing was done"
        assert response.json()["detail"] == "Somebody else is changing this job just now; nothing was done."
    finally:
        go_on.set()
        holding.result(10)
    assert api.send("DELETE", f"{BASE}/jobs/{job_id}").json()["state"] == "cancelled"
