"""The order of jobs/order.py with heaps: the same answers in O(log n) a step, for a million jobs. No Django.

An entry that moved on stays in its heaps until it comes to their top, or until they hold more such than others.
"""

from collections.abc import Callable
from copy import copy
from heapq import heapify, heappop, heappush

from jobs.order import Clock, Entry, own_order

_Item = tuple[float, float, int, Entry]  # its turn when it was put in, its sequence
_SLACK = 64  # items that have moved on, which a heap may hold beside as many as it has others


class _Heap:
    """Entries by a turn that may change; an item of which it did no longer counts."""

    def __init__(self, turn: Callable[[Entry], tuple[float, float]], belongs: Callable[[Entry], bool]) -> None:
        self._turn, self._belongs = turn, belongs
        self._items: list[_Item] = []
        self._most = _SLACK

    def put(self, entry: Entry) -> None:
        heappush(self._items, (*self._turn(entry), entry.sequence, entry))
        if len(self._items) > self._most:
            self._items = [item for item in self._items if self._counts(item)]
            heapify(self._items)
            self._most = 2 * len(self._items) + _SLACK

    def first(self) -> Entry | None:
        while self._items:
            if self._counts(self._items[0]):
                return self._items[0][3]
            heappop(self._items)
        return None

    def _counts(self, item: _Item) -> bool:
        entry = item[3]
        return self._belongs(entry) and self._turn(entry) == (item[0], item[1])


class _Sharers:
    """What a clock has to know of those that it is for: who waits, who runs, who never started."""

    def __init__(self, line: "QuickLine", turn: Callable[[Entry], tuple[float, float]]) -> None:
        def waits(entry: Entry) -> bool:
            return entry.sequence in line.waiting

        self.clock = Clock()
        self.present = 0
        self._turn = turn
        self._waiting = _Heap(turn, waits)
        self._fresh = _Heap(turn, lambda entry: waits(entry) and not entry.started)
        self._running = _Heap(lambda entry: (-turn(entry)[0], 0.0), lambda entry: entry.sequence in line.running)

    def wait(self, entry: Entry) -> None:
        self._waiting.put(entry)
        if not entry.started:
            self._fresh.put(entry)

    def run(self, entry: Entry) -> None:
        self._running.put(entry)

    def head(self) -> Entry | None:
        return self._waiting.first()

    def advance(self, clock: Clock) -> None:
        running, fresh = self._running.first(), self._fresh.first()
        clock.advance(
            [] if running is None else [self._turn(running)[0]],
            None if fresh is None else self._turn(fresh)[0],
            idle=not self.present,
        )


class QuickLine:
    """As jobs.order.Line, but that all that waits may start."""

    def __init__(self, max_wait_seconds: float = 60.0) -> None:
        self.max_wait_seconds = max_wait_seconds
        self.waiting: dict[int, Entry] = {}
        self.running: dict[int, Entry] = {}
        self._clients = _Sharers(self, lambda entry: entry.turn)
        self._flows: dict[str, _Sharers] = {}
        self._own: dict[tuple[str, str], _Heap] = {}
        self._admitted = 0

    @property
    def clock(self) -> Clock:
        return self._clients.clock

    def place(self, client: str) -> float:
        """The rank that a job of this client would get now; nothing changes."""
        clock = copy(self.clock)
        self._clients.advance(clock)
        return max(clock.v, clock.finishes.get(client, 0.0))

    def admit(
        self,
        client: str,
        cost_seconds: float,
        *,
        weight: float = 1.0,
        flow: str = "",
        priority: int = 0,
        accepted_at: float,
    ) -> Entry:
        standing = own_order(accepted_at, priority, self.max_wait_seconds)
        flows = self._flows.get(client) or self._flows.setdefault(client, _Sharers(self, lambda entry: entry.flow_turn))
        self._clients.advance(self.clock)
        rank = self.clock.tag(client, cost_seconds, weight)
        flows.advance(flows.clock)
        flow_rank = flows.clock.tag(flow, cost_seconds, 1.0)
        self._admitted += 1
        entry = Entry(self._admitted, client, flow, cost_seconds, standing, rank, self._admitted, flow_rank)
        self._clients.present += 1
        flows.present += 1
        self._wait(entry)
        return entry

    def _wait(self, entry: Entry) -> None:
        self.waiting[entry.sequence] = entry
        self._clients.wait(entry)
        self._flows[entry.client].wait(entry)
        own = self._own.get((entry.client, entry.flow))
        if own is None:
            own = _Heap(lambda each: (each.own_order, 0.0), lambda each: each.sequence in self.waiting)
            self._own[entry.client, entry.flow] = own
        own.put(entry)

    def claim(self) -> Entry | None:
        """Start the next job; None if none waits."""
        head = self._clients.head()
        if head is None:
            return None
        flows = self._flows[head.client]
        flow_head = flows.head()
        assert flow_head is not None  # head is one
        first = self._own[head.client, flow_head.flow].first()
        assert first is not None  # flow_head is one
        first.flow_rank, flow_head.flow_rank = flow_head.flow_rank, first.flow_rank
        first.rank, first.place, head.rank, head.place = head.rank, head.place, first.rank, first.place
        first.started = True
        self.running[first.sequence] = self.waiting.pop(first.sequence)
        if first is not head:
            self._clients.wait(head)
        if first is not flow_head:
            flows.wait(flow_head)
        self._clients.run(first)
        flows.run(first)
        return first

    def finish(self, sequence: int) -> None:
        self._left(self.running.pop(sequence))

    def cancel(self, sequence: int) -> None:
        self._left(self.waiting.pop(sequence))

    def _left(self, entry: Entry) -> None:
        self._clients.present -= 1
        self._flows[entry.client].present -= 1

    def requeue(self, sequence: int, further_cost_seconds: float) -> None:
        entry = self.running.pop(sequence)
        self._wait(entry)
        self.clock.owe(entry.client, further_cost_seconds)
        self._flows[entry.client].clock.owe(entry.flow, further_cost_seconds)
