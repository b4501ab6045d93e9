"""What arrives: made up by rates and run times, or read from rows. Instants are seconds from the beginning. No Django."""

import csv
import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from jobs.order import HIGHEST_PRIORITY
from jobs.ranges import WrongSetting

OBEY, IGNORE, NEVER = "obey", "ignore", "never"
DISTRIBUTIONS = ("exponential", "fixed", "lognormal")
Comes = Literal["obey", "ignore", "never"]
LOGNORMAL_SIGMA = 1.0  # the longest of a hundred runs is then ten times the median


@dataclass(frozen=True)
class Manner:
    """What a client does with a refusal: comes back after Retry-After, after a pause of its own, or never; and how often it asks at all."""

    comes: Comes = "obey"
    pause_seconds: float = 0.1
    asks: int = 10


@dataclass(slots=True)
class Job:
    """One that a client wants done. `kind` is its job type; deadline_at an instant or None. `then`: what the thread that asked for it asks for next, given the
    instant at which it is free to: when it has an answer that it does not come back from or, if it `waits_for_its_end`, when the job has ended."""

    at: float
    client: str
    cost_class: str
    kind: str
    run_seconds: float
    priority: int = 0
    flow: str = ""
    deadline_at: float | None = None
    weight: float = 1.0
    manner: Manner = Manner()
    asked: int = 0
    key: str = ""  # its own, as an Idempotency-Key
    then: "Callable[[float], Job] | None" = None
    waits_for_its_end: bool = False
    accepted_at: float = 0.0
    started_at: float = 0.0


@dataclass(frozen=True)
class Load:
    """Jobs of one kind that come by chance, `rate` a second, from `clients` clients in turn by chance. With `threads` in place of the rate: from so many threads, each
    of which asks for its next job as soon as it has an answer for the last or, with `rest_seconds`, by chance so long after that one's end.

    run_seconds is the mean of the distribution; run_times, if given, are drawn from instead.
    """

    name: str
    cost_class: str
    rate: float
    run_seconds: float
    distribution: str = "exponential"
    run_times: tuple[float, ...] = ()
    client: str = ""
    clients: int = 1
    weight: float = 1.0
    priority: int = 0
    flow: str = ""
    deadline_seconds: float | None = None
    manner: Manner = Manner()
    threads: int = 0
    rest_seconds: float | None = None


def synthetic(loads: Iterable[Load], seed: int) -> Iterator[Job]:
    """Without end, in the order of arrival. Each load has its own chance, so that one more changes none of the others."""
    streams = (_stream(load, random.Random(f"{seed} {number}")) for number, load in enumerate(loads))
    return heapq.merge(*streams, key=lambda job: job.at)


def _stream(load: Load, chance: random.Random) -> Iterator[Job]:
    owner = load.client or load.name
    names = [owner] if load.clients == 1 else [f"{owner}-{number}" for number in range(1, load.clients + 1)]
    if load.threads:
        within = load.rest_seconds or 1.0  # not all at one instant
        starts = sorted(chance.random() * within for _ in range(load.threads))
        yield from (_of_thread(load, names, chance, at) for at in starts)
        return
    at = 0.0
    while True:
        at += chance.expovariate(load.rate)
        yield _job(load, names, chance, at)


def _of_thread(load: Load, names: list[str], chance: random.Random, at: float) -> Job:
    job = _job(load, names, chance, at)
    job.waits_for_its_end = load.rest_seconds is not None
    rest = chance.expovariate(1 / load.rest_seconds) if load.rest_seconds else 0.0
    job.then = lambda free_at: _of_thread(load, names, chance, free_at + rest)
    return job


def _job(load: Load, names: list[str], chance: random.Random, at: float) -> Job:
    return Job(
        at,
        names[0] if load.clients == 1 else chance.choice(names),
        load.cost_class,
        load.name,
        _run_seconds(load, chance),
        load.priority,
        load.flow,
        None if load.deadline_seconds is None else at + load.deadline_seconds,
        load.weight,
        load.manner,
    )


def _run_seconds(load: Load, chance: random.Random) -> float:
    if load.run_times:
        return chance.choice(load.run_times)
    if load.distribution == "fixed":
        return load.run_seconds
    if load.distribution == "lognormal":
        return chance.lognormvariate(math.log(load.run_seconds) - LOGNORMAL_SIGMA**2 / 2, LOGNORMAL_SIGMA)
    return chance.expovariate(1 / load.run_seconds)


NEEDED = ("at_seconds", "client", "cost_class", "run_seconds")
ALLOWED = (*NEEDED, "priority", "flow", "deadline_seconds")


def from_rows(file: str, text: str, manner: Manner) -> list[Job]:
    """Of a CSV file with a heading, in any order. deadline_seconds counts from the arrival. Raises WrongSetting for the first that is none."""
    rows = csv.DictReader(text.splitlines())
    heading = rows.fieldnames or ()
    if set(NEEDED) - set(heading) or set(heading) - set(ALLOWED):
        allowed = f"a CSV file with the heading {','.join(NEEDED)} and, if need be, {','.join(ALLOWED[len(NEEDED) :])}"
        raise WrongSetting(file, ",".join(heading)[:100], allowed)
    jobs = [_of_row(f"{file}, line {rows.line_num},", row, manner) for row in rows]
    if not jobs:
        raise WrongSetting(file, "", "a CSV file with a line for each job below its heading")
    return sorted(jobs, key=lambda job: job.at)


def _of_row(where: str, row: dict[str, str], manner: Manner) -> Job:
    if None in row or None in row.values():
        raise WrongSetting(where, ",".join(str(value) for value in row.values()), "as many values as the heading has")
    for name in ("client", "cost_class"):
        if not row[name]:
            raise WrongSetting(f"{where} {name}", row[name], "a name")
    at = _number(where, "at_seconds", row["at_seconds"], 0.0)
    deadline = row.get("deadline_seconds")
    return Job(
        at,
        row["client"],
        row["cost_class"],
        row["cost_class"],
        _number(where, "run_seconds", row["run_seconds"], 0.0),
        int(_number(where, "priority", row.get("priority") or "0", -HIGHEST_PRIORITY, HIGHEST_PRIORITY)),
        row.get("flow") or "",
        at + _number(where, "deadline_seconds", deadline, 0.0) if deadline else None,
        manner=manner,
    )


def _number(where: str, name: str, raw: str, low: float, high: float = 1e9) -> float:
    try:
        value = float(raw)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise WrongSetting(f"{where} {name}", raw, f"a number from {low:g} to {high:,.10g}")
    return value
