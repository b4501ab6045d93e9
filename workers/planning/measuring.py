"""One job type in 1 to n threads and in 1 to n processes: how much they do a second, with how much memory, and which pays.

Each number is tried in a process of its own (workers.planning.measured), so that its peak of memory is its own, within a bounded time.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from jobs.cores import usable_cores
from workers import by_hand
from workers.sizing import MIB

SECONDS = 3.0  # for each number, beyond a first run that warms it up
LIMIT_SECONDS = 120.0
PAYS = 1.25  # times what one does; less is noise, or not worth its memory
AS_GOOD = 0.9  # of what processes do, from where threads do as well


class Unmeasured(Exception):
    """There is no figure; the text is a sentence."""


@dataclass(frozen=True)
class Figures:
    """Of so many at once. peak_bytes is of all of them together: shared pages are counted for each process."""

    kind: str  # threads or processes
    at_once: int
    runs: int
    runs_per_second: float
    run_seconds: float
    peak_bytes: int
    peak_bytes_of_one: int
    cpu_share: float  # of the time of the runs, on a processor


@dataclass(frozen=True)
class Measured:
    type: str
    figures: Sequence[Figures]
    load_before: float = 0.0  # what else ran on the machine, in processes, over the minute before
    cores: int = 1

    def gain(self, kind: str) -> float:
        """What the best number of them does, as times what one does."""
        return max(each.runs_per_second for each in self._of(kind)) / self.figures[0].runs_per_second

    def _of(self, kind: str) -> list[Figures]:
        return [each for each in self.figures if each.kind == kind or each.at_once == 1]

    @property
    def pays(self) -> str:
        """threads, processes or neither."""
        threads, processes = self.gain("threads"), self.gain("processes")
        if max(threads, processes) < PAYS:
            return "neither"
        return "threads" if threads >= AS_GOOD * processes else "processes"

    def verdict(self) -> str:
        threads, processes = self.gain("threads"), self.gain("processes")
        most = max(each.at_once for each in self.figures)
        if most == 1:
            return "Only one at a time was tried, so nothing can be told; --up-to 2 tries two."
        told = (
            f"up to {most} processes do {processes:.2f} times what one does, up to {most} threads {threads:.2f} times"
        )
        if self.pays == "processes":
            return f"Processes pay: {told}. The work holds the interpreter's lock."
        if self.pays == "threads":
            return (
                f"Threads do as well: {told}. The work waits, or computes outside the interpreter's lock: it may do several things"
                " at once inside one job, for less memory than a process each."
            )
        if self.load_before >= self.cores:
            return (
                f"Nothing can be told: {told}, but other work kept {self.load_before:.0f} processes busy on {self.cores} cores."
                " Measure again on a machine at rest."
            )
        return f"Neither pays: {told}. One alone keeps the machine busy, or all wait for the same thing."

    def as_json(self) -> dict[str, Any]:
        figures = [asdict(each) for each in self.figures]
        return {
            "type": self.type,
            "pays": self.pays,
            "verdict": self.verdict(),
            "load_before": self.load_before,
            "figures": figures,
        }

    def as_text(self) -> str:
        head = f"{'at once':<14}{'runs/s':>10}{'s a run':>10}{'peak MiB':>10}{'MiB of one':>12}{'on a CPU':>10}"
        return "\n".join([self.type, head, *map(_row, self.figures), "", self.verdict()])


def _row(one: Figures) -> str:
    name = "1" if one.at_once == 1 else f"{one.at_once} {one.kind}"
    return (
        f"{name:<14}{one.runs_per_second:>10.4g}{one.run_seconds:>10.3g}{one.peak_bytes / MIB:>10.0f}"
        f"{one.peak_bytes_of_one / MIB:>12.0f}{one.cpu_share:>10.0%}"
    )


def measure(
    type_name: str, params: Any, uploads: Sequence[str], numbers: dict[str, Any], show: Callable[[str], None]
) -> Measured:
    """`numbers` may have seconds, limit_seconds, up_to. Raises Refused, and Unmeasured for a handler that fails or takes too long."""
    job_type = by_hand.type_of(type_name)
    model, _ = by_hand.params_of(job_type, params)
    asked = {
        "type": job_type.name,
        "params": _plain(model),
        "uploads": {name: str(file.resolve()) for name, file in by_hand.uploads_of(uploads).items()},
        "seconds": numbers.get("seconds", SECONDS),
    }
    figures = []
    load_before = os.getloadavg()[0]
    for kind, at_once in _trials(numbers.get("up_to", usable_cores())):
        show(f"{at_once} {kind} …" if at_once > 1 else "1 …")
        answer = _tried({**asked, "kind": kind, "at_once": at_once}, numbers.get("limit_seconds", LIMIT_SECONDS))
        figures.append(Figures(kind=kind, at_once=at_once, **answer))
    return Measured(job_type.name, figures, load_before, usable_cores())


def _plain(model: BaseModel) -> Any:
    return model.model_dump(mode="json")


def _trials(up_to: int) -> list[tuple[str, int]]:
    """One process of one thread is both, so it is tried once."""
    more = range(2, up_to + 1)
    return [("processes", 1), *(("threads", n) for n in more), *(("processes", n) for n in more)]


def _tried(asked: dict[str, Any], limit_seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="weighbridge-measure-") as folder:
        answer = Path(folder) / "answer"
        _run({**asked, "folder": folder, "answer": str(answer)}, Path(folder) / "errors", limit_seconds)
        if not answer.exists():
            raise Unmeasured(f"{asked['type']} ended its process: {_last_line(Path(folder) / 'errors')}")
        found: dict[str, Any] = json.loads(answer.read_text())
    if "failed" in found:
        raise Unmeasured(f"{asked['type']} fails with these params: {found['failed']}")
    return found


def _run(asked: dict[str, Any], errors: Path, limit_seconds: float) -> None:
    """In a session of its own, of which nothing is left afterwards. What the handler prints is nobody's."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with errors.open("w") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "workers.planning.measured"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=environ,
            start_new_session=True,
        )
        try:
            child.communicate(json.dumps(asked).encode(), timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            raise Unmeasured(
                f"{asked['type']} did not end within {limit_seconds:g} s, {asked['at_once']} at once ({asked['kind']});"
                " --limit-seconds gives it longer."
            ) from None
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def _last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing."
