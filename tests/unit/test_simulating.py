"""What simulated classes show: figures that are known otherwise, fairness, and what the bound on the backlog is for."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from heapq import heapreplace
from itertools import islice
from statistics import fmean

import pytest

from jobs import costs, decision
from jobs.decision import SEEN_SECONDS
from jobs.ranges import WrongSetting
from jobs.turns import in_process
from workers.planning.queueing import predict
from workers.planning.simulation import play
from workers.simulating import measures
from workers.simulating.door import Limits
from workers.simulating.figures import Report
from workers.simulating.measures import WorkLeft
from workers.simulating.present import Present
from workers.simulating.traces import Job, Load, Manner, from_rows, synthetic
from workers.simulating.world import simulate

NEVER = Manner("never")
SHARED_JOBS = 60_000


def played(limits: list[Limits], loads: list[Load], jobs: int, seed: int = 1) -> Report:
    return simulate(limits, islice(synthetic(loads, seed), jobs))


def open_door(name: str, slots: int, max_waiting: int) -> Limits:
    """Nothing but the count of jobs keeps anyone out."""
    return Limits(name, slots, max_waiting, max_wait_seconds=1e9, max_backlog_seconds=1e9)


LIGHT = Load("light", "light", 8, 0.2, client="all", manner=NEVER)
HEAVY = Load("heavy", "heavy", 0.05, 30, client="all", manner=NEVER)


def test_in_slots_of_their_own_light_jobs_wait_little_and_heavy_ones_long() -> None:
    """Each alone, since they have nothing in common: a heavy job comes so rarely that its mean takes days to settle."""
    light = played([open_door("light", 2, 100)], [LIGHT], 20_000).kinds["light"]
    heavy = played([open_door("heavy", 2, 10)], [HEAVY], 30_000).kinds["heavy"]
    assert light.mean_wait_seconds == pytest.approx(0.35, rel=0.15)
    assert heavy.mean_wait_seconds == pytest.approx(32, rel=0.15)


def test_in_shared_slots_light_jobs_wait_as_long_as_heavy_ones() -> None:
    """As the same jobs do in a plain line, first come, first served. Two million jobs of such a line wait for 6.5 s, both kinds; of 60,000 with their
    370 heavy ones that is 3 to 15 s by the seed, and this seed is near the middle."""
    together = [replace(load, cost_class="all") for load in (LIGHT, HEAVY)]
    shared = played([open_door("all", 4, 10_000)], together, SHARED_JOBS, seed=5).kinds
    plain = _first_come_first_served(islice(synthetic(together, 5), SHARED_JOBS), slots=4)
    for kind, seconds in (("light", 7), ("heavy", 7.5)):
        assert shared[kind].mean_wait_seconds == pytest.approx(seconds, rel=0.15)
        assert shared[kind].mean_wait_seconds == pytest.approx(fmean(plain[kind]), rel=1e-6)


def _first_come_first_served(jobs: Iterable[Job], slots: int) -> dict[str, list[float]]:
    """Waits by kind, in seconds."""
    free_at, waits = [0.0] * slots, defaultdict[str, list[float]](list)
    for job in jobs:
        start = max(job.at, free_at[0])
        heapreplace(free_at, start + job.run_seconds)
        waits[job.kind].append(start - job.at)
    return waits


@pytest.mark.parametrize(("rate", "slots", "max_waiting"), [(12, 2, 6), (8, 2, 4), (25, 4, 0)])
def test_of_callers_that_never_come_back_as_many_are_refused_as_the_formula_says(
    rate: float, slots: int, max_waiting: int
) -> None:
    found = played([open_door("c", slots, max_waiting)], [Load("x", "c", rate, 0.2, manner=NEVER)], 20_000)
    assert found.classes["c"].refused_share == pytest.approx(
        predict(rate, 0.2, slots, max_waiting).refusal_share, abs=0.02
    )
    assert found.classes["c"].utilisation == pytest.approx(predict(rate, 0.2, slots, max_waiting).utilisation, abs=0.02)


def test_at_twice_what_the_slots_can_do_the_bound_on_the_backlog_keeps_what_was_accepted_from_expiring() -> None:
    load = [Load("x", "c", 40, 0.2, manner=NEVER)]
    bound = played([Limits("c", 4, 1000, 10, 8)], load, 20_000).classes["c"]
    without = played([Limits("c", 4, 1000, 10, 86_400)], load, 20_000).classes["c"]
    assert bound.expired_share < 0.05 < without.expired_share
    assert bound.refused_share > without.refused_share  # an honest 503 in place of a 202 that comes to nothing
    assert bound.goodput_per_second == pytest.approx(without.goodput_per_second, rel=0.05)  # and nothing is lost by it
    assert bound.utilisation is not None and bound.utilisation > 0.95


def test_a_small_client_beside_one_that_floods_waits_little_once_it_is_let_in() -> None:
    """It wants a fifth of the slots, and the other one twice as much as all of them."""
    limits = [Limits("c", 4, 200, 60, 48)]
    found = played(limits, [Load("flood", "c", 40, 0.2), Load("small", "c", 4, 0.2)], 20_000).clients
    small, flood = found["small"], found["flood"]
    assert small.expired_share == 0
    assert small.p95_wait_seconds is not None and flood.mean_wait_seconds is not None
    assert small.p95_wait_seconds < 1 < flood.mean_wait_seconds


ROOM_BY_COUNT = [Limits("c", 4, 100, 60, 48)], 0.2  # 104 places, and work of 0.2 s each that never comes near 192 s
ROOM_BY_WORK = [Limits("c", 2, 100, 10, 8)], 0.5  # enough work are 32 jobs, long before 102


@pytest.mark.parametrize(("limits", "run_seconds"), [ROOM_BY_COUNT, ROOM_BY_WORK], ids=["by count", "by work"])
def test_a_small_client_beside_32_threads_that_obey_retry_after_is_refused_next_to_never(
    limits: list[Limits], run_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10a. It wants a fifth of what the slots can do. Without the fair share a quarter of its asks were refused by count, and two fifths by work."""
    rate = 0.2 * limits[0].slots / run_seconds
    loads = [Load("flood", "c", 0, run_seconds, threads=32), Load("small", "c", rate, run_seconds)]
    fair = played(limits, loads, 2_500).clients["small"]
    monkeypatch.setattr(decision, "share_over", lambda *_: None)
    unfair = played(limits, loads, 2_500).clients["small"]
    print(f"refused {fair.refused_share:.1%} with the fair share, {unfair.refused_share:.1%} without")
    assert fair.refused_share < 0.05
    assert unfair.refused_share > 0.15


def test_what_the_largest_client_is_given_starts_in_time_and_nothing_is_lost_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 1.3 times what four slots can do half of it is one client's, the rest five others'. Its accepted jobs expired by half before there were shares of the work."""
    limits = [Limits("c", 4, 1000, 10, 8)]
    loads = [
        Load("big", "c", 13, 0.2, manner=NEVER),
        *(Load(f"small-{n}", "c", 2.6, 0.2, manner=NEVER) for n in range(5)),
    ]
    fair = played(limits, loads, 6_000)
    monkeypatch.setattr(decision, "share_over", lambda *_: None)
    unfair = played(limits, loads, 6_000)
    assert fair.clients["big"].expired_share < 0.05 < 0.3 < unfair.clients["big"].expired_share
    assert all(fair.clients[f"small-{n}"].refused_share == 0 for n in range(5))
    assert fair.classes["c"].goodput_per_second == pytest.approx(unfair.classes["c"].goodput_per_second, rel=0.05)


def test_threads_ask_for_their_next_job_when_they_have_an_answer_and_end_with_the_arrivals() -> None:
    """Three of them in a class that takes all of it: some hundred asks a second each."""
    loads = [Load("busy", "c", 0, 0.0001, distribution="fixed", threads=3), Load("x", "c", 10, 0.0001, manner=NEVER)]
    found = played([open_door("c", 4, 1000)], loads, 103)
    busy = found.clients["busy"]
    assert busy.offered == busy.admitted
    assert busy.offered == pytest.approx(3 * 100 * found.seconds, rel=0.2)


def test_who_is_present_is_known_as_a_count_of_all_of_it_would_say() -> None:
    chance, present, now = random.Random(7), Present(), 0.0
    weights = {"a": 1.0, "b": 2.5, "c": 0.5, "d": 4.0}
    came, held = dict[str, float](), defaultdict[str, dict[int, float]](dict)
    for sequence in range(1, 3_000):
        now += chance.choice([0.1, 1.0, 20.0])
        client = chance.choice("abcd")
        if held[client] and chance.random() < 0.55:
            number = chance.choice(sorted(held[client]))
            del held[client][number]
            present.leave_line(client, number, now)
        elif chance.random() < 0.5:
            present.came(client, weights[client], now)
            came[client] = now
            if chance.random() < 0.5:
                present.wait(client, sequence, 2.0)
                held[client][sequence] = 2.0
        asks = chance.choice("abcd")
        holders = {name for name in weights if held[name]} | {asks}
        seen = holders | {name for name, at in came.items() if at > now - SEEN_SECONDS}
        found = present.standing(asks, weights[asks], now)
        assert found.part == pytest.approx(weights[asks] / sum(weights[name] for name in seen))
        assert found.part_of_holders == pytest.approx(weights[asks] / sum(weights[name] for name in holders))
        assert (found.part == 1) is (len(seen) == 1)
        assert found.jobs == len(held[asks])
        assert found.work_seconds == pytest.approx(sum(held[asks].values()))


def test_the_planner_plays_the_same_line() -> None:
    """`manage.py plan` has a line of its own, fifty times as quick since it knows no clients; here is only one."""
    run_times = (0.05, 0.1, 0.45)
    load = Load("x", "c", 20, 0.2, run_times=run_times, manner=NEVER)
    found = played([open_door("c", 4, 7)], [load], 20_000).classes["c"]  # too small a room to keep places in
    line = play(20, run_times, 4, 7)
    assert found.refused_share == pytest.approx(line.refusal_share, abs=0.02)
    assert found.mean_wait_seconds == pytest.approx(line.mean_wait_seconds, rel=0.1)
    assert found.p95_wait_seconds == pytest.approx(line.p95_wait_seconds, rel=0.1)


def test_the_same_seed_gives_the_same_report_and_another_one_another() -> None:
    limits, loads = [Limits("c", 2, 5, 10, 8)], [Load("x", "c", 12, 0.2, "lognormal", clients=3)]
    assert played(limits, loads, 2_000) == played(limits, loads, 2_000) != played(limits, loads, 2_000, seed=2)


def test_every_job_is_accounted_for() -> None:
    found = played([Limits("c", 2, 20, 1, 60)], [Load("x", "c", 30, 0.2, deadline_seconds=3)], 3_000).classes["c"]
    started = round(found.admitted * (1 - found.expired_share))
    assert found.offered == 3_000 == found.admitted + round(found.gave_up_share * 3_000)
    assert found.asked == found.admitted + sum(found.refused.values())
    assert 0 < found.expired_share < 1 and round(found.useful_share * 3_000) <= started


@pytest.mark.parametrize(
    ("clients", "threads", "told", "alone"), [(1, 88, 0.85, 0.6), (5, 88, 0.95, 0.65), (10, 208, 0.95, 0.7)]
)
def test_of_callers_that_come_when_they_are_told_to_most_are_let_in_since_places_are_kept_for_them(
    clients: int, threads: int, told: float, alone: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10, in a closed population: who has its answer waits for its job's end, rests, and asks for the next. Of one client the class keeps places, of several each share."""
    limits = [Limits("c", 4, 40 if threads < 100 else 100, 1e6, 1e6)]
    crowd = Load("crowd", "c", 0, 1.0, clients=clients, threads=threads, rest_seconds=1.0, manner=Manner(asks=1000))
    first = "crowd" if clients == 1 else "crowd-1"
    loads = [crowd, Load("x", "c", 0.01, 1.0, client=first, manner=NEVER)]  # which only lets it go on for so long
    kept = played(limits, loads, threads + 4).classes["c"]
    monkeypatch.setattr(in_process._Line, "near", lambda *_: 0)
    free = played(limits, loads, threads + 4).classes["c"]
    print(f"{kept.honest_share:.0%} of {kept.returned} with places kept, {free.honest_share:.0%} without")
    assert (kept.honest_share or 0) > told > alone > (free.honest_share or 0)
    assert kept.utilisation == pytest.approx(1, abs=0.01)


def test_work_that_is_left_grows_with_what_waits_and_shrinks_as_it_runs() -> None:
    work = WorkLeft()
    work.wait(1, 10.0)
    work.wait(2, 4.0)
    assert work.seconds(0.0) == 14
    work.start(1, 1.0)
    assert work.seconds(3.0) == pytest.approx(12)
    assert work.seconds(12.0) == pytest.approx(4)  # the first runs for longer than expected
    work.finish(1)
    work.leave_line(2)
    assert work.seconds(13.0) == 0


def test_run_times_are_kept_as_the_door_keeps_them() -> None:
    assert measures.RUNS_KEPT == costs.RUNS_KEPT


def test_a_trace_is_read_in_the_order_of_its_instants() -> None:
    text = "at_seconds,client,cost_class,run_seconds,deadline_seconds,priority\n2,a,c,1,,5\n1,b,c,0.5,3,\n"
    one, other = from_rows("t.csv", text, NEVER)
    assert (one.at, one.client, one.deadline_at, one.priority) == (1, "b", 4, 0)
    assert (other.at, other.deadline_at, other.priority) == (2, None, 5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "at_seconds,client\n",
            "t.csv is 'at_seconds,client', but must be a CSV file with the heading at_seconds,client,",
        ),
        ("at_seconds,client,cost_class,run_seconds\n", "t.csv is '', but must be a CSV file with a line for each job"),
        (
            "at_seconds,client,cost_class,run_seconds\n1,a,c,nan\n",
            "t.csv, line 2, run_seconds is 'nan', but must be a number",
        ),
        (
            "at_seconds,client,cost_class,run_seconds\n-1,a,c,1\n",
            "t.csv, line 2, at_seconds is '-1', but must be a number",
        ),
        ("at_seconds,client,cost_class,run_seconds\n1,,c,1\n", "t.csv, line 2, client is '', but must be a name"),
        (
            "at_seconds,client,cost_class,run_seconds\n1,a,c\n",
            "t.csv, line 2, is '1,a,c,None', but must be as many values",
        ),
    ],
)
def test_a_trace_that_is_none_is_refused_in_a_sentence_that_says_where(text: str, sentence: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        from_rows("t.csv", text, NEVER)
    assert str(refused.value).startswith(sentence)
