"""However many claim at once, no limit is passed, and a freed key is used (P12)."""

from collections import Counter
from itertools import accumulate

import pytest

from jobs.models import ApiClient, Attempt, Job, LimitKey
from tests import job_rows
from tests.concurrency.crowd import Crowd

pytestmark = pytest.mark.django_db(transaction=True)


def _most_at_once(attempts: list[Attempt]) -> Counter[int]:
    """How often so many ran, by the instants that were stored: an attempt begins under the lock, after the last one's end was committed."""
    moments = sorted(
        [(attempt.started_at, 1) for attempt in attempts] + [(attempt.finished_at, -1) for attempt in attempts]
    )
    return Counter(accumulate(change for _, change in moments))


@pytest.mark.parametrize("maximum", [1, 3])
def test_a_key_s_maximum_is_exact_for_four_processes_at_once(crowd: Crowd, maximum: int) -> None:
    LimitKey.objects.create(pattern="licence:*", maximum=maximum)
    keys: list[list[str]] = [["licence:a"], ["licence:b"], ["licence:a", "licence:b"], []] * 40
    for number, named in enumerate(keys):
        job_rows.a_queued_job(limit_keys=named, rank=number % 7)
    ran = crowd.all_do("work_under_limits", node=str(job_rows.a_node().pk), threads=3)
    assert sum(ran) == len(keys) == Job.objects.filter(state="succeeded").count()
    for key in ("licence:a", "licence:b"):
        together = _most_at_once(list(Attempt.objects.filter(job__limit_keys__contains=[key])))
        print(f"{key}: ran together, how many and how often: {dict(together)}")
        assert max(together) == maximum
    assert sum(count > 0 for count in ran) >= 2


def test_a_client_s_running_cap_is_exact_for_four_processes_at_once(crowd: Crowd) -> None:
    capped = job_rows.a_client()
    ApiClient.objects.filter(pk=capped.pk).update(max_running=2)
    for _ in range(80):
        job_rows.a_queued_job()
    ran = crowd.all_do("work_under_limits", node=str(job_rows.a_node().pk), threads=3)
    together = _most_at_once(list(Attempt.objects.all()))
    print(f"ran together, how many and how often: {dict(together)}")
    assert sum(ran) == 80
    assert max(together) == 2
