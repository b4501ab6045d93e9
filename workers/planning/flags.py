"""The numbers of `manage.py plan`, each read in its range or refused in one sentence. No Django."""

import math
from dataclasses import dataclass
from typing import Any

from jobs.ranges import Whole, WrongSetting
from workers.planning.sizes import MOST_SLOTS


@dataclass(frozen=True)
class Above:
    """A number above 0 and up to `high`."""

    what: str
    high: float

    def read(self, name: str, raw: object) -> float:
        try:
            value = float(str(raw).strip())
        except ValueError:
            raise WrongSetting(name, raw, str(self)) from None
        if not 0 < value <= self.high:  # NaN is in no range
            raise WrongSetting(name, raw, str(self))
        return value

    def __str__(self) -> str:
        return f"{self.what} above 0 and up to {self.high:,.10g}"


_DAY = 86_400
NUMBERS: dict[str, Above | Whole] = {
    "rate": Above("a number of jobs a second", 1_000_000),
    "service_seconds": Above("a number of seconds", _DAY),
    "slots": Whole(1, MOST_SLOTS),
    "max_waiting": Whole(0, 10_000),
    "wait_target": Above("a number of seconds", _DAY),
    "refusal_target": Above("a share of the callers", 0.99),
    "memory_mib": Above("a number of MiB", 1_000_000_000),
    "machine_memory_mib": Above("a number of MiB", 1_000_000_000),
    "cores": Whole(1, 4096),
    "seconds": Above("a number of seconds", 600),
    "limit_seconds": Above("a number of seconds", _DAY),
    "up_to": Whole(1, 256),
}


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def read(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given. Raises WrongSetting for the first that cannot be."""
    return {
        name: allowed.read(flag(name), options[name])
        for name, allowed in NUMBERS.items()
        if options.get(name) is not None
    }


def run_times(file: str, text: str) -> tuple[float, ...]:
    """One number of seconds a line. Raises WrongSetting for the first that is none, or if there is none."""
    allowed = Above("a number of seconds on each line,", _DAY)
    found = tuple(
        allowed.read(f"{file}, line {number},", line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    )
    if not found or not math.isfinite(sum(found)):
        raise WrongSetting(file, "", "a file of run times in seconds, one a line")
    return found
