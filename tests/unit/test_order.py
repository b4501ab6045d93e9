"""The order of jobs as a model: its vectors, and what holds whatever clients, slots and times there are."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.order import Clock, Entry, Line, own_order

WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 4, "e": 1}  # powers of two, so that tags of whole costs are exact


def _drain(line: Line) -> Iterator[Entry]:
    """Start everything, one after another."""
    while (entry := line.claim()) is not None:
        yield entry
        line.finish(entry.sequence)


def _admit_all(line: Line, *lots: tuple[str, list[float]]) -> None:
    for client, costs in lots:
        for cost in costs:
            line.admit(client, cost, weight=WEIGHTS[client])


def test_the_order_of_three_clients_that_came_with_all_they_had() -> None:
    line = Line()
    _admit_all(line, ("a", [10, 10]), ("b", [1, 1, 1]), ("c", [4, 4]))
    assert "".join(entry.client for entry in _drain(line)) == "abcbbca"


def test_one_client_by_itself_is_served_first_come_first_served() -> None:
    line = Line()
    _admit_all(line, ("a", [5, 1, 9, 2]))
    assert [entry.sequence for entry in _drain(line)] == [1, 2, 3, 4]


def test_a_client_that_was_idle_gets_no_credit() -> None:
    """It stands beside the first that waits, not where it would have stood had it been there all along."""
    line = Line()
    _admit_all(line, ("a", [10] * 10))
    for _ in range(6):
        started = line.claim()
        assert started is not None
        line.finish(started.sequence)
    _admit_all(line, ("b", [10] * 3))
    assert "".join(entry.client for entry in _drain(line)) == "abababa"


def test_a_client_that_used_an_idle_system_gets_no_debt() -> None:
    line = Line()
    _admit_all(line, ("a", [100] * 3))
    assert len(list(_drain(line))) == 3
    first, second = line.admit("b", 1), line.admit("a", 1)
    assert first.rank == second.rank == 300


def test_one_long_job_on_one_slot_does_not_stop_the_clock_of_the_others() -> None:
    """What runs was started long ago; yet the work of the other slots since is neither a's debt nor b's credit."""
    line = Line()
    line.admit("z", 1000)
    long = line.claim()
    assert long is not None
    _admit_all(line, ("a", [10] * 10))
    for _ in range(10):
        started = line.claim()
        assert started is not None
        line.finish(started.sequence)
    newcomer, next_of_a = line.admit("b", 10), line.admit("a", 10)
    assert (newcomer.rank, next_of_a.rank) == (90, 100)


def test_a_requeued_job_keeps_its_rank_and_its_client_pays_with_its_next() -> None:
    line = Line()
    first = line.admit("c", 4, weight=2)
    line.claim()
    line.requeue(first.sequence, 6)
    again = line.claim()
    assert again is first
    assert first.rank == 0
    assert line.admit("c", 4, weight=2).rank == 2
    assert line.admit("c", 4, weight=2).rank == 2 + (4 + 6) / 2  # the debt is paid once
    assert line.admit("c", 4, weight=2).rank == 2 + (4 + 6) / 2 + 2


def test_a_requeued_job_holds_back_no_clock() -> None:
    line = Line()
    _admit_all(line, ("a", [10] * 4))
    first = line.claim()
    assert first is not None
    for _ in range(2):
        later = line.claim()
        assert later is not None
        line.finish(later.sequence)
    line.requeue(first.sequence, 10)
    assert line.admit("b", 10).rank == 30  # that of a's fourth, not of its first


def test_priority_goes_first_among_ones_own_and_the_ranks_change_hands() -> None:
    line = Line(max_wait_seconds=60)
    low = line.admit("a", 5, priority=0, accepted_at=0)
    high = line.admit("a", 5, priority=100, accepted_at=10)
    other = line.admit("b", 5, priority=0, accepted_at=20)
    assert [entry.sequence for entry in _drain(line)] == [high.sequence, other.sequence, low.sequence]
    assert (high.rank, low.rank, other.rank) == (0, 5, 0)


def test_turns_are_exchanged_and_not_costs() -> None:
    """What the exchange does not promise: a client that prefers its dear jobs has them done at the turns of its cheap ones, so
    meanwhile it may have more than its share. Over all that it had in line it gets no more."""
    line = Line()
    _admit_all(line, ("a", [1] * 5), ("b", [10] * 6))
    for _ in range(5):
        line.admit("a", 10, priority=100)
    order = list(_drain(line))
    assert "".join(entry.client for entry in order) == "abaaaaabababab" + "ab"
    assert [entry.cost_seconds for entry in order if entry.client == "a"] == [10.0] * 5 + [1.0] * 5


def test_flows_of_a_client_share_its_turns() -> None:
    line = Line()
    for flow in ("x", "x", "x", "x", "y", "y"):
        line.admit("a", 2, flow=flow)
    line.admit("b", 2)
    assert [f"{entry.client}{entry.flow}" for entry in _drain(line)] == ["ax", "b", "ay", "ax", "ay", "ax", "ax"]


def test_a_job_that_may_not_start_is_passed_and_keeps_its_rank() -> None:
    line = Line()
    held = line.admit("a", 1)
    line.admit("b", 5)
    started = line.claim(lambda entry: entry is not held)
    assert started is not None
    assert started.client == "b"
    assert line.claim() is held
    assert line.claim() is None


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["cost_seconds", "weight"])
def test_a_number_that_no_order_can_be_made_of_is_refused_and_changes_nothing(name: str, wrong: float) -> None:
    line = Line()
    with pytest.raises(ValueError, match=f"{name} is {wrong!r}, but must be a number above 0"):
        line.admit("a", **{"cost_seconds": 1.0, name: wrong})  # type: ignore[arg-type]
    assert line.clock == Clock()
    assert not line.waiting


@pytest.mark.parametrize("priority", [101, -101])
def test_a_priority_out_of_its_range_is_refused(priority: int) -> None:
    with pytest.raises(ValueError, match="from -100 to 100"):
        own_order(0, priority, 60)


def test_between_the_lowest_and_the_highest_priority_lies_the_longest_wait() -> None:
    assert own_order(100, -100, 60) - own_order(100, 100, 60) == 60
    assert own_order(100, 0, 60) == 100


# ── Whatever happens ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Admit:
    client: str
    cost: int
    flow: str
    priority: int


@dataclass(frozen=True)
class Claim:
    pass


@dataclass(frozen=True)
class Leave:
    """The how-manieth of those that run, or wait, leaves; modulo their number."""

    which: int
    how: str  # finish, cancel or requeue


Step = Admit | Claim | Leave

CLIENTS = st.sampled_from(sorted(WEIGHTS))
COSTS = st.integers(1, 50)
ADMITS = st.builds(Admit, CLIENTS, COSTS, st.sampled_from(["", "x", "y"]), st.integers(-100, 100))
PLAIN_ADMITS = st.builds(Admit, CLIENTS, COSTS, st.just(""), st.just(0))
FINISHES = st.builds(Leave, st.integers(0, 99), st.just("finish"))
ENDS = st.builds(Leave, st.integers(0, 99), st.sampled_from(["finish", "cancel"]))
LEAVES = st.builds(Leave, st.integers(0, 99), st.sampled_from(["finish", "cancel", "requeue"]))


@dataclass
class Start:
    entry: Entry
    rank: float
    before: set[str]  # the clients that had jobs waiting
    after: set[str]


def _play(steps: list[Step], line: Line | None = None, slots: int = 4) -> tuple[Line, list[Start]]:
    """What started, in order. Jobs are accepted a second apart."""
    line = line or Line()
    starts: list[Start] = []
    for step in steps:
        if isinstance(step, Admit):
            weight = WEIGHTS[step.client]
            line.admit(step.client, step.cost, weight=weight, flow=step.flow, priority=step.priority)
        elif isinstance(step, Claim):
            if len(line.running) < slots:
                _start(line, starts)
        else:
            _leave(line, step)
    return line, starts


def _start(line: Line, starts: list[Start]) -> None:
    before = {each.client for each in line.waiting.values()}
    entry = line.claim()
    if entry is not None:
        starts.append(Start(entry, entry.rank, before, {each.client for each in line.waiting.values()}))


def _leave(line: Line, step: Leave) -> None:
    those = line.waiting if step.how == "cancel" else line.running
    if not those:
        return
    sequence = sorted(those)[step.which % len(those)]
    if step.how == "requeue":
        line.requeue(sequence, those[sequence].cost_seconds)
    else:
        {"finish": line.finish, "cancel": line.cancel}[step.how](sequence)


def _rest(line: Line, starts: list[Start]) -> None:
    """Until all has started."""
    while line.waiting:
        _start(line, starts)


@settings(max_examples=100)
@given(st.lists(st.one_of(ADMITS, st.just(Claim()), FINISHES), max_size=80), st.integers(1, 5))
def test_ranks_start_in_order_however_many_slots_there_are(steps: list[Step], slots: int) -> None:
    """So a newcomer is never put before work that has started already: one server's bounds hold for many."""
    line, starts = _play(steps, slots=slots)
    _rest(line, starts)
    ranks = [start.rank for start in starts]
    assert ranks == sorted(ranks)


@settings(max_examples=100)
@given(st.lists(st.one_of(ADMITS, st.just(Claim()), LEAVES), max_size=80))
def test_the_clock_never_falls_and_no_rank_is_below_it(steps: list[Step]) -> None:
    line = Line()
    before = 0.0
    for at, step in enumerate(steps):
        admitted = set(line.waiting)
        _play([step], line)
        assert line.clock.v >= before, at
        before = line.clock.v
        for sequence in set(line.waiting) - admitted:
            entry = line.waiting[sequence]
            assert entry.started or entry.rank >= line.clock.v


@settings(max_examples=100)
@given(
    st.lists(st.one_of(PLAIN_ADMITS, st.just(Claim()), FINISHES), max_size=60),
    st.lists(st.one_of(PLAIN_ADMITS, st.just(Claim()), FINISHES), max_size=60),
    st.lists(COSTS, min_size=1, max_size=12),
    st.lists(COSTS, min_size=1, max_size=12),
    st.integers(1, 5),
)
def test_two_clients_that_both_have_work_waiting_get_it_by_their_weights(
    before: list[Step], during: list[Step], of_a: list[int], of_c: list[int], slots: int
) -> None:
    """Between any two instants at which both had jobs waiting all the while, the work that was started for each, by its
    weight, differs by no more than the largest job that each ever had: the bound of start-time fair queueing."""
    line, earlier = _play(before, slots=slots)
    _admit_all(line, ("a", [float(cost) for cost in of_a]), ("c", [float(cost) for cost in of_c]))
    line, starts = _play(during, line, slots)
    _rest(line, starts)
    bound = sum(max(_share(each.entry) for each in [*earlier, *starts] if each.entry.client == who) for who in "ac")
    for lead in _leads(starts, "a", "c"):
        assert max(lead) - min(lead) <= bound


def _leads(starts: list[Start], one: str, other: str) -> Iterator[list[float]]:
    """For each time in which both have jobs waiting: how far one is ahead, after each start."""
    lead = [0.0]
    for start in starts:
        both = {one, other}
        if both <= start.before and start.entry.client in both:
            sign = 1 if start.entry.client == one else -1
            lead.append(lead[-1] + sign * _share(start.entry))
        if not both <= start.after:  # whoever has none left may come back, but that is another time
            yield lead
            lead = [0.0]
    yield lead


def _share(entry: Entry) -> float:
    return entry.cost_seconds / WEIGHTS[entry.client]


@settings(max_examples=100)
@given(st.lists(st.one_of(PLAIN_ADMITS, st.just(Claim()), FINISHES), max_size=100), st.integers(1, 5))
def test_no_job_is_overtaken_by_more_than_what_it_is_ahead_of_the_clock(steps: list[Step], slots: int) -> None:
    """Of each other client, by its weight: the work admitted later that starts sooner is at most rank - v, and one job more."""
    line = Line()
    lead: dict[int, float] = {}
    starts: list[Start] = []
    for step in steps:
        known = set(lead)
        _, started = _play([step], line, slots)
        starts += started
        for sequence in set(line.waiting) - known:
            lead[sequence] = line.waiting[sequence].rank - line.clock.v
    _rest(line, starts)
    for place, start in enumerate(starts):
        passed: dict[str, list[float]] = defaultdict(list)
        for sooner in starts[:place]:
            if sooner.entry.sequence > start.entry.sequence:
                passed[sooner.entry.client].append(_share(sooner.entry))
        assert start.entry.client not in passed
        for shares in passed.values():
            assert sum(shares) <= lead[start.entry.sequence] + max(shares)


@settings(max_examples=100)
@given(st.lists(st.one_of(ADMITS, st.just(Claim()), FINISHES), max_size=80), st.integers(1, 5))
def test_priorities_and_flows_change_no_other_clients_ranks_and_no_clients_turns(steps: list[Step], slots: int) -> None:
    """The same with none of them: the same clients start at the same places, at the same ranks."""

    def plainly(step: Step) -> Step:
        return Admit(step.client, step.cost, "", 0) if isinstance(step, Admit) else step

    with_them = _told(steps, slots)
    without = _told([plainly(step) for step in steps], slots)
    assert with_them == without


def _told(steps: list[Step], slots: int) -> list[tuple[str, float]]:
    line, starts = _play(_first_come(steps), slots=slots)
    _rest(line, starts)
    return [(start.entry.client, start.rank) for start in starts]


def _first_come(steps: list[Step]) -> list[Step]:
    """Who finishes is told by place, and places hold other jobs when priorities differ: only the oldest finishes here."""
    return [Leave(0, "finish") if isinstance(step, Leave) else step for step in steps]


@settings(max_examples=100)
@given(st.lists(st.one_of(ADMITS, st.just(Claim()), ENDS), max_size=100))
def test_a_job_is_passed_by_none_of_its_flow_that_was_accepted_a_longest_wait_later(steps: list[Step]) -> None:
    line = Line(max_wait_seconds=20)
    _, starts = _play(steps, line)
    _rest(line, starts)
    for place, start in enumerate(starts):
        for later in starts[place + 1 :]:
            same = (start.entry.client, start.entry.flow) == (later.entry.client, later.entry.flow)
            if same:
                assert start.entry.sequence - later.entry.sequence <= 20


@settings(max_examples=100)
@given(st.lists(st.one_of(ADMITS, st.just(Claim()), FINISHES), max_size=60), st.integers(1, 50))
def test_a_requeue_moves_no_rank_and_no_clock_but_the_next_tag_of_its_client(steps: list[Step], cost: int) -> None:
    line, _ = _play(steps)
    twin, _ = _play(steps)
    if not line.running:
        return
    sequence = min(line.running)
    line.requeue(sequence, cost)
    assert _ranks(line) == _ranks(twin)
    assert line.clock.v == twin.clock.v
    assert line.clock.finishes == twin.clock.finishes
    client = line.waiting[sequence].client
    others = sorted(WEIGHTS.keys() - {client})
    assert [line.admit(other, 7).rank for other in others] == [twin.admit(other, 7).rank for other in others]


def _ranks(line: Line) -> dict[int, float]:
    return {entry.sequence: entry.rank for entry in [*line.waiting.values(), *line.running.values()]}
