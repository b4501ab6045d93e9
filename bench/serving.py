"""Our ASGI application with its bridge against granian's WSGI interface and Django's own ASGI handler.

Each pass of a way sends the same number of requests, so that all meet the same load: submits of one small job to a class where
it waits, then GET /healthz. The ways take turns, A B C A B C, and are compared round by round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Spread, percentile, ratios, spread
from bench.ground import Ground
from bench.load import Pass, drive
from bench.processes import MIB, Memory
from bench.tables import milliseconds, shown, table
from bench.ways import HEALTHZ, Way, all_ways


@dataclass(frozen=True)
class Size:
    """`submits` and `reads` are those of one pass. The class has to have room for the submits."""

    rounds: int
    submits: int
    reads: int
    connections: int = 16
    web_processes: int = 2


@dataclass
class Passes:
    """Of one way and one kind of request, one for each round; and the processor time of its web processes in each, in seconds."""

    passes: list[Pass] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    @property
    def rates(self) -> list[float]:
        return [one.per_second for one in self.passes]

    @property
    def cpu_milliseconds(self) -> list[float]:
        """For one request."""
        pairs = zip(self.cpu_seconds, self.passes, strict=True)
        return [seconds * 1e3 / len(one.latencies) for seconds, one in pairs]

    def latency(self, share: float) -> float:
        """Over the requests of all rounds."""
        return percentile([seconds for one in self.passes for seconds in one.latencies], share)


@dataclass(frozen=True)
class Report:
    """By the name of the way; ours is the first. `memory` is that of one web process after the last round."""

    size: Size
    submits: Mapping[str, Passes]
    reads: Mapping[str, Passes]
    memory: Mapping[str, Memory]

    def lines(self) -> list[str]:
        size = self.size
        return [
            f"Serving: {size.rounds} rounds in turn, {size.connections} connections; medians (lowest to highest round)",
            *_compared(f"POST, {size.submits} a round", self.submits),
            *_compared(f"GET /healthz, {size.reads} a round", self.reads),
            *_of_memory(self.memory),
        ]


def measured(ground: Ground, size: Size, folder: Path, say: Callable[[str], None] = lambda sentence: None) -> Report:
    """`folder` is for what the other ways' servers write; `say` gets a sentence for each round."""
    with all_ways(ground.stack, size.web_processes, folder) as ways:
        names = [way.name for way in ways]
        report = Report(size, {name: Passes() for name in names}, {name: Passes() for name in names}, {})
        for way in ways:
            _round(ground, way, _warm_up(size), Passes(), Passes())
        for number in range(1, size.rounds + 1):
            say(f"Serving, round {number} of {size.rounds} …")
            for way in ways:
                _round(ground, way, size, report.submits[way.name], report.reads[way.name])
        return Report(size, report.submits, report.reads, {way.name: way.processes.memory() for way in ways})


def _warm_up(size: Size) -> Size:
    return Size(1, max(1, size.submits // 5), max(1, size.reads // 5), size.connections)


def _round(ground: Ground, way: Way, size: Size, submits: Passes, reads: Passes) -> None:
    post = ground.submit(ground.waits_in)
    ground.clear()
    _add(submits, way, lambda: drive(way.port, post, size.submits, size.connections, expected=202))
    _add(reads, way, lambda: drive(way.port, HEALTHZ, size.reads, size.connections, expected=200))


def _add(passes: Passes, way: Way, driven: Callable[[], Pass]) -> None:
    before = way.processes.cpu_seconds()
    passes.passes.append(driven())
    passes.cpu_seconds.append(way.processes.cpu_seconds() - before)


def _compared(what: str, ways: Mapping[str, Passes]) -> list[str]:
    ours = next(iter(ways.values()))
    headings = (what, "a second", "p50 ms", "p99 ms", "ours ÷ this", "web's CPU ms each", "client's core %")
    return ["", *table(headings, [_row(name, ours, way) for name, way in ways.items()])]


def _row(name: str, ours: Passes, way: Passes) -> Sequence[str]:
    return (
        name,
        shown(spread(way.rates)),
        milliseconds(way.latency(0.50)),
        milliseconds(way.latency(0.99)),
        "" if way is ours else shown(ratios(ours.rates, way.rates), 2),
        shown(spread(way.cpu_milliseconds), 2),
        shown(_client(way)),
    )


def _client(way: Passes) -> Spread:
    return spread([one.client_share * 100 for one in way.passes])


def _of_memory(memory: Mapping[str, Memory]) -> list[str]:
    rows = [(name, f"{used.private / MIB:.1f}", f"{used.resident / MIB:.1f}") for name, used in memory.items()]
    return ["", *table(("memory of one web process, afterwards", "private MiB", "resident MiB"), rows)]
