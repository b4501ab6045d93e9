"""bin/bench: the measurements, on a stack of their own, which is gone when they are done."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench import held, serving, waiting
from bench.ground import Ground
from bench.load import Unexpected
from stack.failures import StackError
from stack.foreground import tell
from stack.local import Stack
from stack.ports import free_port
from stack.signals import StopRequested, StopSignals

INTERRUPTED = 130
WEB_PROCESSES = RUNNING = 2
# The worker of `light` is left out, so that its jobs only wait; so is all that would only make noise.
WITHOUT = ("worker-light", "worker-control", "beat", "flower")
WORKER = "worker-heavy"
ENVIRONMENT = {
    "DATABASE_URL": "",
    "REDIS_URL": "",
    "WEIGHBRIDGE_WEB_PROCESSES": str(WEB_PROCESSES),
    "WEIGHBRIDGE_LIGHT_MAX_WAITING": "10000",
    "WEIGHBRIDGE_LIGHT_MAX_WAIT_SECONDS": "3600",
    "WEIGHBRIDGE_HEAVY_PROCESSES": str(RUNNING),
}


class Report(Protocol):
    def lines(self) -> list[str]: ...


@dataclass(frozen=True)
class Sizes:
    waiting: waiting.Size
    serving: serving.Size
    held: held.Size


SHORT = Sizes(
    waiting.Size(rounds=4, waits=25, polls=RUNNING),
    serving.Size(rounds=3, submits=300, reads=1000),
    held.Size(rounds=2, callers=500, reads=500),
)
LONG = Sizes(
    waiting.Size(rounds=16, waits=50, polls=RUNNING),
    serving.Size(rounds=12, submits=600, reads=2000),
    held.Size(rounds=6, callers=500, reads=2000),
)
NAMES = ("waiting", "serving", "held")  # in this order: the last two want no worker beside them


def main() -> int:
    options = _options()
    signals = StopSignals()
    signals.install()
    try:
        with _temporary_stack(options.names, signals) as (stack, folder):
            _run(stack, folder, options.names, LONG if options.long else SHORT)
    except StopRequested:
        return INTERRUPTED
    except (StackError, Unexpected) as error:
        tell(str(error))
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="measurement", help=f"{', '.join(NAMES)}; all of them if none is named"
    )
    parser.add_argument("--long", action="store_true", help="more and longer rounds, for figures to be quoted")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no measurement {unknown[0]!r}; there are {', '.join(NAMES)}")
    options.names = options.names or NAMES
    return options


@contextmanager
def _temporary_stack(names: Collection[str], signals: StopSignals) -> Iterator[tuple[Stack, Path]]:
    """Started, with a folder for the rest; nothing of either is left."""
    with tempfile.TemporaryDirectory(prefix="weighbridge-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # as root the servers run as another user, who is to reach them in here
        without = WITHOUT if "waiting" in names else (*WITHOUT, WORKER)
        stack = Stack(folder / "data", _environment(), "project.settings", without, tell, signals.hurry)
        try:
            stack.start()
            yield stack, folder
        finally:
            signals.begin_stopping()
            stack.erase()


def _environment() -> Mapping[str, str]:
    """Of our own environment nothing that would set the stack."""
    taken_away = {name: "" for name in os.environ if name.startswith("WEIGHBRIDGE_")}
    return {**taken_away, **ENVIRONMENT, "WEIGHBRIDGE_PORT": str(free_port())}


def _run(stack: Stack, folder: Path, names: Collection[str], sizes: Sizes) -> None:
    ground = Ground(stack, waits_in="light", runs_in="heavy")
    _print([_machine()])
    if "waiting" in names:
        _print(waiting.measured(ground, sizes.waiting, tell).lines())
        stack.stop_program(WORKER)
    if "serving" in names:
        _print(serving.measured(ground, sizes.serving, folder, tell).lines())
    if "held" in names:
        _print(held.measured(ground, sizes.held, tell).lines())


def _machine() -> str:
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    busy = " (others use it: trust ratios, not rates)" if load > cores else ""
    return f"{cores} cores, load {load:.1f}{busy}; {WEB_PROCESSES} web processes for each way to serve"


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines) + "\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
