"""Plans: the size that meets the targets, what blocks it, and what is said about it."""

import random
from dataclasses import replace

import pytest

from workers.planning import told
from workers.planning.advice import NothingToGoBy, advise
from workers.planning.question import Question
from workers.planning.queueing import predict
from workers.planning.reasons import share
from workers.planning.simulation import play
from workers.planning.sizes import Load, Targets, room_for, sized, smallest
from workers.sizing import Memory

LOAD = Load(rate=20, service_seconds=0.2)
TARGETS = Targets(wait_seconds=1, refusal_share=0.001)
ASKED = Question(LOAD, wait_target=1, refusal_target=0.001, cores=16)


def test_the_fewest_processes_that_meet_the_targets_with_all_the_room_that_starts_in_time() -> None:
    assert sized(LOAD, 5, room_for(LOAD, TARGETS, 5)).prediction.refusal_share == pytest.approx(0.002521, abs=1e-6)
    found = smallest(LOAD, TARGETS)
    assert found is not None
    assert (found.slots, found.max_waiting) == (6, 21)


def test_a_plan_that_meets_its_targets_says_why_one_process_less_would_not() -> None:
    plan = advise(ASKED)
    assert (plan.meets, plan.size.slots, plan.size.max_waiting) == (True, 6, 21)
    assert "With 5 processes and 17 waiting 0.25 % would be refused; 0.10 % may be." in plan.reasons
    assert plan.warnings == ()


def test_where_memory_blocks_it_cannot_be_met_and_the_queue_is_no_larger() -> None:
    plan = advise(replace(ASKED, memory=Memory(limit_mib=2048, child_mib=400)))
    assert (plan.meets, plan.size.slots) == (False, 3)
    assert plan.size.max_waiting == room_for(LOAD, TARGETS, 3) < 21
    assert plan.blocked[0].startswith("6 processes are needed, but memory holds 3: 2048 MiB less 15% headroom")
    assert "Cannot meet what was asked for:" in told.as_text(plan)
    assert told.as_json(plan)["meets"] is False


def test_memory_for_exactly_what_is_needed_is_enough() -> None:
    exactly = Memory(limit_mib=2048, child_mib=(2048 * 0.85 - 180) / 6)
    assert exactly.processes == 6
    plan = advise(replace(ASKED, memory=exactly))
    assert plan.meets
    assert any("Memory holds 6 processes" in reason for reason in plan.reasons)


def test_a_machine_that_holds_not_even_one_process_is_told() -> None:
    plan = advise(replace(ASKED, memory=Memory(limit_mib=512, child_mib=4000)))
    assert not plan.meets
    assert "memory holds 0" in plan.blocked[0]


def test_slots_that_were_asked_for_are_held_against_memory_and_targets() -> None:
    five = advise(replace(ASKED, slots=5))
    assert (five.meets, five.size.max_waiting) == (False, 17)
    assert five.blocked == ("0.25 % of the callers would be refused, and 0.10 % may be.",)
    assert not advise(replace(ASKED, slots=8, memory=Memory(2048, 400))).meets


def test_a_room_that_is_too_large_for_its_wait_target_is_told() -> None:
    plan = advise(replace(ASKED, slots=6, max_waiting=100))
    assert plan.blocked == (
        "The last of 100 waiting jobs would start within 3.9 s (with probability 0.95), and within 1 s it should.",
    )


def test_a_load_beyond_any_class_cannot_be_met() -> None:
    plan = advise(Question(Load(2000, 1), wait_target=1, cores=16))
    assert "No class with up to 256 processes" in plan.blocked[0]
    assert any("at least 87 % is refused, however many may wait" in reason for reason in plan.reasons)


def test_processes_beyond_the_cores_are_told_with_what_the_jobs_are_like() -> None:
    on_four = replace(ASKED, cores=4)
    assert advise(replace(ASKED, cores=7)).warnings == ()
    (unknown,) = advise(on_four).warnings
    assert unknown.startswith("6 processes are more than the 3 for which 4 usable cores have room beside the web.")
    assert "would not hold without more cores" in advise(replace(on_four, computing=0.9)).warnings[0]
    assert "wait more than they compute (10%" in advise(replace(on_four, computing=0.1)).warnings[0]


def test_without_a_size_or_a_target_there_is_nothing_to_go_by() -> None:
    with pytest.raises(NothingToGoBy, match="Say --wait-target"):
        advise(Question(LOAD))
    with pytest.raises(NothingToGoBy, match="Say --max-waiting"):
        advise(Question(LOAD, slots=2))


def test_a_given_room_finds_the_processes_that_serve_it_in_time() -> None:
    plan = advise(replace(ASKED, max_waiting=40))
    assert plan.meets
    assert room_for(LOAD, TARGETS, plan.size.slots) >= 40 > room_for(LOAD, TARGETS, plan.size.slots - 1)


def test_played_with_exponential_run_times_the_line_is_as_computed() -> None:
    draws = random.Random(3)
    played = play(8, [draws.expovariate(1 / 0.2) for _ in range(20_000)], 2, 20)
    computed = predict(8, 0.2, 2, 20)
    assert played.refusal_share == pytest.approx(computed.refusal_share, abs=0.002)
    assert played.mean_wait_seconds == pytest.approx(computed.mean_wait_seconds, rel=0.1)
    assert played.p95_wait_seconds == pytest.approx(computed.p95_wait_seconds, rel=0.1)
    assert played.utilisation == pytest.approx(computed.utilisation, rel=0.03)


def test_the_same_seed_plays_the_same_and_no_room_refuses_whoever_finds_no_slot() -> None:
    assert play(8, [0.2, 0.1], 2, 3, jobs=1000) == play(8, [0.2, 0.1], 2, 3, jobs=1000)
    assert play(8, [1.0], 10, 0).refusal_share == pytest.approx(predict(8, 1, 10, 0).refusal_share, abs=0.01)
    assert play(8, [1.0], 10, 0).p99_wait_seconds == 0


def test_run_times_that_vary_much_are_told_as_what_they_do_to_the_waits() -> None:
    """Of one mean: the formula knows no more than that."""
    odd = (*[0.05] * 19, 3.05)
    steady = advise(replace(ASKED, run_times=(0.2,) * 20))
    assert steady.warnings == ()
    plan = advise(replace(ASKED, run_times=odd))
    assert plan.size == steady.size
    assert plan.warnings[0].startswith(
        "Run times vary more than the formula takes them to (standard deviation 3.3 times"
    )
    assert plan.played is not None
    assert steady.played is not None
    assert plan.played.p95_wait_seconds > 2 * steady.played.p95_wait_seconds


def test_the_json_has_the_figures_by_their_names() -> None:
    found = told.as_json(advise(Question(Load(8, 0.2), slots=2, max_waiting=20)))
    figures = (
        "refusal_share",
        "mean_wait_seconds",
        "p50_wait_seconds",
        "p95_wait_seconds",
        "p99_wait_seconds",
        "utilisation",
    )
    assert [found[name] for name in figures] == pytest.approx(
        [0.00165054, 0.33782888, 0.17202773, 1.25546360, 1.87282219, 0.79867957], abs=1e-6
    )
    assert found["meets"] is True


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0 %"), (1, "100 %"), (0.25, "25 %"), (0.0252, "2.5 %"), (0.002521, "0.25 %"), (1e-12, "next to nothing")],
)
def test_shares_are_told_to_two_digits(part: float, text: str) -> None:
    assert share(part) == text
