"""The database decides as jobs/decision.py does, in whatever situation (P2, P5, P7, P9, P10a)."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.db import connection

from jobs.admission import share_of
from jobs.capacity import Room
from jobs.decision import Ahead, Asked, Bounds, Decision, Share, Standing, decide
from jobs.models import ApiClient, FairShare, Job, LimitKey, WorkerNode
from jobs.order import Clock
from jobs.states import State
from tests import job_rows
from tests.job_rows import TYPE, a_client, later

pytestmark = pytest.mark.django_db

WEIGHTS = {"a": 1.0, "b": 1.0, "c": 2.5, "d": 0.1, "e": 0.3}
MAXIMA = {"x": 1, "y:*": 2}
SITUATIONS, ASKED_OF_EACH = 80, 12


@dataclass
class Held:
    """One live job, as the test remembers it. One that runs has run for so long that none of its work is left: what is left of another grows less while we look."""

    client: str
    running: bool
    expected: float | None
    cost: float
    rank: float
    keys: tuple[str, ...]

    @property
    def work_left(self) -> float:
        return 0.0 if self.running else self.expected or 0.0


@dataclass
class Situation:
    """A class, written past the door. What is in the database and what is here is the same."""

    chance: random.Random
    slots: int
    type_known: bool
    jobs: list[Held] = field(default_factory=list)
    lately: dict[str, float] = field(default_factory=dict)  # seconds since it was let in
    finish: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    @classmethod
    def made_up(cls, chance: random.Random) -> "Situation":
        slots = chance.choice([0, 1, 2, 3, 4])
        made = cls(chance, slots, type_known=chance.random() < 0.8)
        if slots:
            job_rows.a_node(processes=slots, types=(TYPE,) if made.type_known else ("tests.other",))
        for _ in range(chance.choice([0, 2, 6, 8, 10, 12])):
            made._hold()
        for client in chance.sample(sorted(WEIGHTS), chance.choice([0, 1, 3])):
            made.lately[client], made.finish[client] = chance.choice([5.0, 55.0, 65.0, 600.0]), chance.uniform(0, 9)
            FairShare.objects.create(
                cost_class="light",
                client=a_client(client),
                used_at=later(-made.lately[client]),
                finish_tag=made.finish[client],
            )
        made.refused = chance.sample(sorted(WEIGHTS), chance.choice([0, 0, 1, 2]))
        return made

    def _hold(self) -> None:
        chance = self.chance
        running, seconds = chance.random() < 0.3, chance.choice([1.0, 2.0, 4.0, None])
        held = Held(
            client=chance.choice("aaabcde"),
            running=running,
            expected=seconds,
            cost=seconds or 1.5,
            rank=float(chance.randrange(12)),
            keys=tuple(chance.sample(["x", "y:1", "y:2", "free"], chance.choice([0, 1, 2]))),
        )
        self.jobs.append(held)
        job = job_rows.a_queued_job(
            expected_seconds=held.expected, cost_seconds=held.cost, rank=held.rank, limit_keys=list(held.keys)
        )
        row = Job.objects.filter(pk=job.pk)
        row.update(client=a_client(held.client))
        if running:
            leased = {"lease_until": later(60), "hard_deadline": later(60)}
            row.update(state=State.RUNNING, attempt=1, started_at=later(-1000), **leased)
        if chance.random() < 0.1:  # holds no place
            job_rows.a_queued_job(expected_seconds=50.0, start_by=later(-10), attempt=1, started_at=later(-20))

    def clear(self) -> None:
        for model in (Job, FairShare, WorkerNode):
            model.objects.all().delete()

    # ── As the model sees it ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def room(self) -> Room:
        running = sum(job.running for job in self.jobs)
        work = sum(job.work_left for job in self.jobs)
        return Room(len(self.jobs) - running, running, self.slots, work)

    def standing(self, client: str, named: tuple[str, ...]) -> Standing:
        holders = {job.client for job in self.jobs} | {client}
        seen = holders | set(self.refused)
        seen |= {name for name, ago in self.lately.items() if ago < 60}
        own = [job for job in self.jobs if job.client == client]
        limited = Counter(key for job in self.jobs for key in job.keys if key != "free")
        return Standing(
            WEIGHTS[client] / sum(WEIGHTS[name] for name in seen),
            WEIGHTS[client] / sum(WEIGHTS[name] for name in holders),
            len(own),
            sum(job.work_left for job in own),
            keys=limited if any(key != "free" for key in named) else {},
        )

    def ahead(self, client: str, mean_known: bool) -> Ahead:
        clock = Clock()
        waiting = [job.rank for job in self.jobs if not job.running]
        clock.advance((job.rank for job in self.jobs if job.running), min(waiting, default=None), idle=False)
        rank = max(clock.v, self.finish.get(client, 0.0))
        before = [job for job in self.jobs if job.running or job.rank <= rank]
        known = mean_known or all(job.expected is not None for job in before)
        mean = sum(job.cost for job in before) / len(before) if before and known else None
        return Ahead(len(before), mean)


def decided(
    situation: Situation, client: str, asked: Asked, bounds: Bounds, own_turns: int, mean_known: bool
) -> Decision:
    arguments: dict[str, Any] = {
        "client": a_client(client).pk,
        "type": TYPE,
        "in_seconds": asked.deadline_in_seconds,
        "expected": asked.expected_seconds,
        "declared": asked.declared,
        "max_waiting": bounds.max_waiting,
        "max_backlog": bounds.max_backlog_seconds,
        "processes": bounds.processes,
        "kept": bounds.kept,
        "kept_seconds": bounds.kept_seconds,
        "own_turns": own_turns,
        "mean_known": mean_known,
        "keys": list(asked.limit_keys),
        "refused": [a_client(name).pk for name in situation.refused],
    }
    with connection.cursor() as cursor:
        cursor.execute(_DECIDE, arguments)
        verdict, share, starts_in = cursor.fetchone()
    return Decision(verdict, share_of(share), starts_in)


_DECIDE = """
SELECT verdict, share, starts_in FROM decide_v1(
    %(client)s, '', %(type)s, 'light',
    clock_timestamp() + make_interval(secs => %(in_seconds)s),
    %(expected)s, %(declared)s, %(max_waiting)s, %(max_backlog)s, %(processes)s, %(mean_known)s, '1 second', %(keys)s, %(refused)s::bigint[],
    %(kept)s, %(kept_seconds)s, %(own_turns)s)
"""


def an_asked(chance: random.Random) -> Asked:
    expected = chance.choice([None, 1.0, 3.0])
    return Asked(
        deadline_in_seconds=chance.choice([None, None, chance.uniform(-1, 12)]),
        expected_seconds=expected,
        declared=expected is not None and chance.random() < 0.5,
        limit_keys=tuple(chance.sample(["x", "y:1", "free"], chance.choice([0, 0, 1, 2]))),
    )


def test_in_whatever_situation_the_database_decides_as_the_model_does() -> None:
    chance, verdicts = random.Random(1), Counter[str]()
    for name, weight in WEIGHTS.items():
        ApiClient.objects.filter(pk=a_client(name).pk).update(weight=weight)
    for pattern, maximum in MAXIMA.items():
        LimitKey.objects.create(pattern=pattern, maximum=maximum)
    for _ in range(SITUATIONS):
        situation = Situation.made_up(chance)
        for _ in range(ASKED_OF_EACH):
            verdicts[_compared(chance, situation)] += 1
        situation.clear()
    print(dict(verdicts))
    wanted = ("admitted", "queue_full", "jobs", "work", "key", "type_unavailable", "deadline_infeasible")
    assert all(verdicts[each] for each in (*wanted, "deadline_unreachable")), verdicts


def _compared(chance: random.Random, situation: Situation) -> str:
    """The verdict, or by what a share is full."""
    client, asked = chance.choice(sorted(WEIGHTS)), replace(an_asked(chance), type_known=situation.type_known)
    bounds = Bounds(
        chance.choice([0, 6, 9, 12, 15]), chance.choice([2.37, 4.61, 9.13, 1e6, 1e6]), chance.choice([1, 3])
    )
    if chance.random() < 0.3:
        bounds = replace(bounds, kept=bounds.max_waiting // 3, kept_seconds=chance.choice([0.0, 1.03]))
    mean_known = chance.random() < 0.5
    ahead = situation.ahead(client, mean_known) if situation.slots else None
    standing = replace(situation.standing(client, asked.limit_keys), own_turns=chance.choice([0, 0, 1, 5]))
    expected = decide(asked, situation.room, bounds, standing, ahead)
    found = decided(situation, client, asked, bounds, standing.own_turns, mean_known)
    assert (found.verdict, _rounded(found.share)) == (expected.verdict, _rounded(expected.share)), (situation, asked)
    if found.verdict in ("admitted", "deadline_unreachable"):
        assert found.starts_in_seconds == pytest.approx(expected.starts_in_seconds)
    return found.verdict if found.share is None else found.share.by


def _rounded(share: Share | None) -> Share | None:
    """Weights are summed in another order."""
    if share is None:
        return None
    held_seconds, kept_seconds = round(share.held_seconds, 6), round(share.kept_seconds, 6)
    return replace(share, part=round(share.part, 9), held_seconds=held_seconds, kept_seconds=kept_seconds)
