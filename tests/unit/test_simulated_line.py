"""The fast order of the simulator gives the answers of jobs/order.py, whatever happens."""

import random
from collections import Counter

import pytest

from jobs.order import Line
from workers.simulating.line import QuickLine

WEIGHTS = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 0.5}


class Both:
    """The model and the fast line, given the same."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.model, self.quick = Line(60.0), QuickLine(60.0)
        self.done: Counter[str] = Counter()

    def admit(self) -> None:
        client = self.chance.choice("aabcd")
        cost = self.chance.choice([1.0, 1.0, 2.0, 0.5, self.chance.uniform(0.1, 9)])
        flow, priority = self.chance.choice(["", "", "x", "y"]), self.chance.choice([0, 0, 0, 50, -100])
        at = float(self.done["admitted"] // 3)  # some at the same instant
        for line in (self.model, self.quick):
            line.admit(client, cost, weight=WEIGHTS[client], flow=flow, priority=priority, accepted_at=at)
        self.done["admitted"] += 1

    def claim(self) -> None:
        one, other = self.model.claim(), self.quick.claim()
        assert (one and one.sequence) == (other and other.sequence)
        self.done["claimed"] += one is not None

    def finish(self) -> None:
        if self.model.running:
            sequence = self.chance.choice(sorted(self.model.running))
            self.model.finish(sequence)
            self.quick.finish(sequence)
            self.done["finished"] += 1

    def requeue(self) -> None:
        if self.model.running:
            sequence = self.chance.choice(sorted(self.model.running))
            self.model.requeue(sequence, 1.5)
            self.quick.requeue(sequence, 1.5)
            self.done["requeued"] += 1

    def cancel(self) -> None:
        if self.model.waiting:
            sequence = self.chance.choice(sorted(self.model.waiting))
            self.model.cancel(sequence)
            self.quick.cancel(sequence)
            self.done["cancelled"] += 1

    def compare(self) -> None:
        assert self.model.waiting == self.quick.waiting  # entries, with all their ranks
        assert self.model.running == self.quick.running
        assert self.model.clock == self.quick.clock


@pytest.mark.parametrize("seed", range(20))
def test_on_a_random_history_both_hold_the_same_after_each_step(seed: int) -> None:
    chance = random.Random(seed)
    both = Both(chance)
    moves = [both.admit] * 4 + [both.claim] * 3 + [both.finish] * 2 + [both.requeue, both.cancel]
    for _ in range(600):
        chance.choice(moves)()
        both.compare()
    assert all(both.done[kind] > 10 for kind in ("admitted", "claimed", "finished", "requeued", "cancelled")), both.done


def test_the_place_that_a_job_would_get_is_the_one_it_gets_and_asking_moves_no_clock() -> None:
    chance, line = random.Random(5), QuickLine()
    for number in range(200):
        client = chance.choice("abc")
        v, place = line.clock.v, line.place(client)
        assert line.clock.v == v
        assert line.admit(client, chance.uniform(0.1, 5), accepted_at=number).rank == place
        if number % 2:
            entry = line.claim()
            assert entry is not None
            if number % 4 == 1:
                line.finish(entry.sequence)
