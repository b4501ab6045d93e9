"""In which order the jobs of one class start: weighted start-time fair queueing over clients. A pure model, without a database.

Every job gets a `rank` when it is admitted, and the waiting job of the lowest rank starts first; ties go to the one admitted first.
Ranks are seconds of expected work, by a clock that belongs to the class:

    rank     = the later of the clock's v and the client's last finish tag
    finish   = rank + (expected cost + debt) ÷ weight, which is the client's finish tag from then on

So a client that submits much queues behind itself, and one that submits little starts soon. Only admissions move v, and it never falls.

Inside its client a job has a second rank, by a clock of the client's own, over the client's flows (its tenants, say), and inside
its flow an own order: acceptance, moved by priority. A claim takes the client whose turn it is, of its flows the one whose turn it is, and of that
flow the first by own order; the job that goes first and those whose turns they were exchange ranks. So neither flow nor priority
moves a rank of another client.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

HIGHEST_PRIORITY = 100  # and the lowest is -100, as in Django Tasks


def own_order(accepted_at: float, priority: int, max_wait_seconds: float) -> float:
    """Where a job stands among its own client's: lower goes first. Seconds, as accepted_at.

    Between the lowest and the highest priority lies max_wait_seconds: no job is passed by one that was accepted later than that.
    """
    if not -HIGHEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ValueError(
            f"priority is {priority}, but must be a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}."
        )
    return accepted_at - priority / HIGHEST_PRIORITY * max_wait_seconds / 2


@dataclass
class Clock:
    """Of those who share something: a class's clients, or a client's flows. Times are expected seconds of work ÷ weight.

    `lowest_waiting` is the lowest rank of the jobs that wait and have never started, None if there is none. Since no later rank is
    below v, raising v to it passes nobody. Without it v would stand still while nothing that runs was started lately: behind one
    long job on one slot, a newcomer would be put before all that the other slots have done meanwhile.
    """

    v: float = 0.0
    highest_rank: float = 0.0
    highest_finish: float = 0.0
    finishes: dict[str, float] = field(default_factory=dict)
    debts: dict[str, float] = field(default_factory=dict)

    def advance(self, running: Iterable[float], lowest_waiting: float | None, idle: bool) -> None:
        """With an admission. `running` are the ranks of jobs that run; idle: nothing waits or runs."""
        if idle:
            reached = self.highest_finish
        elif lowest_waiting is None:
            reached = self.highest_rank  # all of it has started
        else:
            reached = lowest_waiting
        self.v = max(self.v, reached, *running)

    def tag(self, who: str, cost_seconds: float, weight: float) -> float:
        """The rank of who's next job. Raises ValueError for a cost or weight that no order can be made of."""
        for name, value in (("cost_seconds", cost_seconds), ("weight", weight)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value!r}, but must be a number above 0.")
        rank = max(self.v, self.finishes.get(who, 0.0))
        finish = rank + (cost_seconds + self.debts.pop(who, 0.0)) / weight
        self.finishes[who] = finish
        self.highest_rank = max(self.highest_rank, rank)
        self.highest_finish = max(self.highest_finish, finish)
        return rank

    def owe(self, who: str, cost_seconds: float) -> None:
        """What a job of theirs costs beyond what it was admitted with; their next admission pays it."""
        self.debts[who] = self.debts.get(who, 0.0) + cost_seconds


@dataclass
class Entry:
    """One job in line. `rank`, with its `place` among equal ranks, and `flow_rank` change only by an exchange with another job of its client."""

    sequence: int
    client: str
    flow: str
    cost_seconds: float
    own_order: float
    rank: float
    place: int
    flow_rank: float
    started: bool = False

    @property
    def turn(self) -> tuple[float, int]:
        return self.rank, self.place

    @property
    def flow_turn(self) -> tuple[float, int]:
        return self.flow_rank, self.sequence

    @property
    def own_turn(self) -> tuple[float, int]:
        return self.own_order, self.sequence


class Line:
    """One class: what waits, what runs, and its clocks. Jobs are told apart by the sequence number of their admission, from 1."""

    def __init__(self, max_wait_seconds: float = 60.0) -> None:
        self.max_wait_seconds = max_wait_seconds
        self.clock = Clock()
        self.flow_clocks: dict[str, Clock] = {}
        self.waiting: dict[int, Entry] = {}
        self.running: dict[int, Entry] = {}
        self._admitted = 0

    def admit(
        self,
        client: str,
        cost_seconds: float,
        *,
        weight: float = 1.0,
        flow: str = "",
        priority: int = 0,
        accepted_at: float | None = None,
    ) -> Entry:
        """Jobs are accepted a second apart if no instant is given. Raises ValueError, and changes nothing, for a number that
        no order can be made of."""
        at = float(self._admitted + 1) if accepted_at is None else accepted_at
        standing = own_order(at, priority, self.max_wait_seconds)
        rank = self._rank(self.clock, client, cost_seconds, weight, self._all(), lambda entry: entry.rank)
        flows = self.flow_clocks.setdefault(client, Clock())
        own = [entry for entry in self._all() if entry.client == client]
        flow_rank = self._rank(flows, flow, cost_seconds, 1.0, own, lambda entry: entry.flow_rank)
        self._admitted += 1
        entry = Entry(self._admitted, client, flow, cost_seconds, standing, rank, self._admitted, flow_rank)
        self.waiting[entry.sequence] = entry
        return entry

    def _all(self) -> list[Entry]:
        return [*self.waiting.values(), *self.running.values()]

    def _rank(
        self,
        clock: Clock,
        who: str,
        cost_seconds: float,
        weight: float,
        present: list[Entry],
        rank_of: Callable[[Entry], float],
    ) -> float:
        running = [rank_of(entry) for entry in present if entry.sequence in self.running]
        fresh = [rank_of(entry) for entry in present if entry.sequence in self.waiting and not entry.started]
        clock.advance(running, min(fresh, default=None), idle=not present)
        return clock.tag(who, cost_seconds, weight)

    def claim(self, may_start: Callable[[Entry], bool] = lambda entry: True) -> Entry | None:
        """Start the next job of those that may; None if there is none."""
        able = [entry for entry in self.waiting.values() if may_start(entry)]
        if not able:
            return None
        head = min(able, key=lambda entry: entry.turn)
        of_client = [entry for entry in able if entry.client == head.client]
        flow_head = min(of_client, key=lambda entry: entry.flow_turn)
        of_flow = [entry for entry in of_client if entry.flow == flow_head.flow]
        first = min(of_flow, key=lambda entry: entry.own_turn)
        first.flow_rank, flow_head.flow_rank = flow_head.flow_rank, first.flow_rank
        first.rank, first.place, head.rank, head.place = head.rank, head.place, first.rank, first.place
        first.started = True
        self.running[first.sequence] = self.waiting.pop(first.sequence)
        return first

    def finish(self, sequence: int) -> None:
        del self.running[sequence]

    def cancel(self, sequence: int) -> None:
        """A waiting job leaves; what it was tagged with stays."""
        del self.waiting[sequence]

    def requeue(self, sequence: int, further_cost_seconds: float) -> None:
        """A running job waits again, at its rank. What it will cost once more is its client's and its flow's to pay."""
        entry = self.running.pop(sequence)
        self.waiting[sequence] = entry
        self.clock.owe(entry.client, further_cost_seconds)
        self.flow_clocks[entry.client].owe(entry.flow, further_cost_seconds)
