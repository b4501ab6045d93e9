"""However many claim at once, no limit is passed, and a freed key is used (P12)."""

from collections import Counter
from itertools import accumulate

import pytest

from jobs.models import ApiClient, Attempt, Job, LimitKey
from tests import job_rows
from tests.concurrency.crowd import Crowd, rounds_until

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
    node = str(job_rows.a_node().pk)
    named: list[list[str]] = [["licence:a"], ["licence:b"], ["licence:a", "licence:b"], []] * 40
    most = {"licence:a": 0, "licence:b": 0}
    for _ in rounds_until(lambda: set(most.values()) == {maximum}, at_least=1, at_most=10):
        for number, keys in enumerate(named):
            job_rows.a_queued_job(limit_keys=keys, rank=number % 7)
        ran = crowd.all_do("work_under_limits", node=node, threads=3)
        assert sum(ran) == len(named)
        for key in most:
            together = _most_at_once(list(Attempt.objects.filter(job__limit_keys__contains=[key])))
            print(f"{key}: ran together, how many and how often: {dict(together)}; jobs of each process: {ran}")
            assert max(together) <= maximum
            most[key] = max(together)
    assert set(most.values()) == {maximum}, "what is free is used"
    assert set(Job.objects.values_list("state", flat=True)) == {"succeeded"}


def test_a_client_s_running_cap_is_exact_for_four_processes_at_once(crowd: Crowd) -> None:
    capped = job_rows.a_client()
    ApiClient.objects.filter(pk=capped.pk).update(max_running=2)
    node = str(job_rows.a_node().pk)
    most = {"ran": 0}
    for _ in rounds_until(lambda: most["ran"] == 2, at_least=1, at_most=10):
        for _ in range(80):
            job_rows.a_queued_job()
        assert sum(crowd.all_do("work_under_limits", node=node, threads=3)) == 80
        together = _most_at_once(list(Attempt.objects.all()))
        print(f"ran together, how many and how often: {dict(together)}")
        assert max(together) <= 2
        most["ran"] = max(together)
    assert most["ran"] == 2, "what is free is used"
