"""A question for the planner out of what this installation's own jobs were like."""

from dataclasses import dataclass

from jobs import history
from jobs.classes import CostClass
from jobs.expected_cost import FEWEST_RUNS
from jobs.history import BUSIEST_SECONDS, History
from workers.sizing import MIB


@dataclass(frozen=True)
class Recorded:
    """Of one class. `told` says where the numbers come from, in sentences; a number is None where there was too little."""

    cost_class: CostClass
    rate: float | None
    service_seconds: float | None
    run_times: tuple[float, ...]
    computing: float | None
    child_mib: float | None
    told: tuple[str, ...]


def recorded(cost_class: CostClass) -> Recorded:
    found = history.of_class(cost_class.name)
    if len(found.run_seconds) < FEWEST_RUNS:
        told = f"Class {cost_class.name} has {len(found.run_seconds)} runs of at least {FEWEST_RUNS} in the last {history.MOST_DAYS} days."
        return Recorded(cost_class, None, None, (), None, None, (told,))
    return _enough(cost_class, found)


def _enough(cost_class: CostClass, found: History) -> Recorded:
    # The plain mean, odd runs and all: they did keep their processes.
    service_seconds = sum(found.run_seconds) / len(found.run_seconds)
    peak = found.peak_bytes() if len(found.peak_rss_bytes) >= FEWEST_RUNS else None
    runs = len(found.run_seconds)
    told = [
        f"From the {runs} jobs of class {cost_class.name} that ended last, in up to {history.MOST_DAYS} days:"
        f" {found.busiest_rate:.3g} a second in the busiest {BUSIEST_SECONDS / 60:g} minutes, {service_seconds:.3g} s each."
        " Jobs that were refused are not in it."
    ]
    if peak is not None:
        told.append(f"95 % of {len(found.peak_rss_bytes)} attempts stayed within {peak / MIB:.0f} MiB.")
    else:
        told.append(f"{len(found.peak_rss_bytes)} attempts of at least {FEWEST_RUNS} have a peak of memory.")
    return Recorded(
        cost_class,
        found.busiest_rate,
        service_seconds,
        tuple(found.run_seconds),
        found.computing,
        None if peak is None else peak / MIB,
        tuple(told),
    )
