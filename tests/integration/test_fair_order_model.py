"""The order that the database keeps is that of jobs/order.py, whatever happens (P11, P11a)."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from jobs import admission, lifecycle
from jobs.admission import Admitted
from jobs.lifecycle import Claim, Outcome
from jobs.models import ApiClient, FairClock, Job, WorkerNode
from jobs.order import Entry, Line
from jobs.states import State
from tests import job_rows
from tests.submissions import a_submission

pytestmark = pytest.mark.django_db

WEIGHTS = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 0.5}
MAX_WAIT_SECONDS = 60.0


class Both:
    """One class, twice: the model and the database, which are given the same and must then hold the same."""

    def __init__(self, node: WorkerNode) -> None:
        self.node = node
        self.line = Line(MAX_WAIT_SECONDS)
        self.jobs: dict[int, Job] = {}
        self.claims: dict[int, Claim] = {}
        self.done: Counter[str] = Counter()
        for name, weight in WEIGHTS.items():
            ApiClient.objects.filter(pk=job_rows.a_client(name).pk).update(weight=weight)

    def admit(self, chance: random.Random) -> None:
        client, cost = chance.choice("aabcd"), chance.choice([1.0, 1.0, 2.0, 0.5, chance.uniform(0.1, 9)])
        flow, priority = chance.choice(["", "", "x", "y"]), chance.choice([0, 0, 0, 50, -100])
        asked = a_submission(
            1000, client=job_rows.a_client(client), declared_cost_seconds=cost, flow=flow, priority=priority
        )
        wide = replace(asked.cost_class, max_backlog_seconds=1e6, max_wait_seconds=MAX_WAIT_SECONDS)
        answer = admission.submit(replace(asked, cost_class=wide))
        assert isinstance(answer, Admitted) and answer.job.accepted_at
        entry = self.line.admit(
            client,
            cost,
            weight=WEIGHTS[client],
            flow=flow,
            priority=priority,
            accepted_at=answer.job.accepted_at.timestamp(),
        )
        self.jobs[entry.sequence] = answer.job
        self.done["admitted"] += 1

    def claim(self, _: random.Random) -> None:
        entry, claimed = self.line.claim(), job_rows.claim(self.node)
        if entry is None:
            assert claimed is None
            return
        assert claimed is not None and claimed.job_id == self.jobs[entry.sequence].pk
        self.claims[entry.sequence] = claimed
        self.done["claimed"] += 1

    def finish(self, chance: random.Random) -> None:
        if self.claims:
            sequence = chance.choice(sorted(self.claims))
            self.line.finish(sequence)
            job_rows.succeed(self.claims.pop(sequence))
            self.done["finished"] += 1

    def requeue(self, chance: random.Random) -> None:
        if self.claims:
            sequence = chance.choice(sorted(self.claims))
            claimed = self.claims.pop(sequence)
            self.line.requeue(sequence, self.line.running[sequence].cost_seconds)
            lifecycle.retry(claimed.job_id, claimed.attempt, Outcome(State.FAILED, error_code="x"), 0)
            self.done["requeued"] += 1

    def cancel(self, chance: random.Random) -> None:
        if self.line.waiting:
            sequence = chance.choice(sorted(self.line.waiting))
            self.line.cancel(sequence)
            lifecycle.cancel(self.jobs[sequence].pk)
            self.done["cancelled"] += 1

    def compare(self) -> None:
        rows: dict[Any, tuple[float, float]] = {
            job_id: (rank, flow_rank)
            for job_id, rank, flow_rank in Job.objects.filter(state__in=("queued", "running")).values_list(
                "pk", "rank", "flow_rank"
            )
        }
        live: list[Entry] = [*self.line.waiting.values(), *self.line.running.values()]
        assert rows == {
            self.jobs[entry.sequence].pk: pytest.approx((entry.rank, entry.flow_rank), abs=1e-9) for entry in live
        }
        if self.done["admitted"]:
            assert FairClock.objects.get().virtual_time == pytest.approx(self.line.clock.v, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_the_database_orders_as_the_model_does(node: WorkerNode, seed: int) -> None:
    chance, both = random.Random(seed), Both(node)
    moves = [both.admit] * 4 + [both.claim] * 3 + [both.finish] * 2 + [both.requeue, both.cancel]
    for _ in range(120):
        chance.choice(moves)(chance)
        both.compare()
    assert all(both.done[kind] > 2 for kind in ("admitted", "claimed", "finished", "requeued", "cancelled")), both.done
