"""What the bodies of `tests.note` jobs wrote down."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import eventually


@dataclass(frozen=True)
class Entry:
    """One begin or end of one body; `at` in monotonic seconds of this machine."""

    what: str
    name: str
    job_id: str
    attempt: int
    pid: int
    at: float


@dataclass(frozen=True)
class Diary:
    path: Path

    def params(
        self, name: str, seconds: float = 0.0, cost_class: str = "light", held: bool = False, fails: bool = False
    ) -> dict[str, object]:
        """A name is one word. A `held` body goes on only once the gate is opened."""
        gate = str(self._gate) if held else ""
        told = {"diary": str(self.path), "name": name, "seconds": seconds, "cost_class": cost_class}
        return {**told, "gate": gate, "fails": fails}

    @property
    def _gate(self) -> Path:
        return self.path.with_suffix(".gate")

    def open_gate(self) -> None:
        """Let every held body go on, those that begin later too."""
        self._gate.touch()

    def close_gate(self) -> None:
        self._gate.unlink()

    def entries(self) -> list[Entry]:
        """In the order of their instants."""
        if not self.path.exists():
            return []
        rows = [line.split() for line in self.path.read_text().splitlines()]
        entries = [Entry(w, n, j, int(a), int(p), float(t)) for w, n, j, a, p, t in rows]
        return sorted(entries, key=lambda entry: entry.at)

    def began(self) -> list[str]:
        return [entry.name for entry in self.entries() if entry.what == "begin"]

    def ended(self) -> list[str]:
        return [entry.name for entry in self.entries() if entry.what == "end"]

    def first(self, what: str, name: str) -> Entry:
        return next(entry for entry in self.entries() if (entry.what, entry.name) == (what, name))

    def wait_until_began(self, *names: str, within_seconds: float = 10.0) -> None:
        self._wait(self.began, names, within_seconds)

    def wait_until_ended(self, *names: str, within_seconds: float = 10.0) -> None:
        self._wait(self.ended, names, within_seconds)

    def _wait(self, written: Callable[[], list[str]], names: tuple[str, ...], within_seconds: float) -> None:
        eventually(lambda: set(names) <= set(written()), within_seconds, 0.02)

    def most_at_once(self) -> int:
        """The largest number of bodies that were between begin and end at one instant."""
        at_once = most = 0
        for entry in self.entries():
            at_once += 1 if entry.what == "begin" else -1
            most = max(most, at_once)
        return most

    def longest_idle(self, processes: int, since: float) -> float:
        """Seconds: the longest that a process had no body after `since`, up to a begin that followed.

        Says something when every body was claimable from `since` on, and every one ended.
        """
        free, longest = [since] * processes, 0.0
        for entry in self.entries():
            if entry.what == "end":
                free.append(max(entry.at, since))
            else:
                assert free, f"{entry.name} began although {processes} bodies were running"
                longest = max(longest, entry.at - max(free.pop(0), since))
        return longest


def now() -> float:
    """The diary's clock."""
    return time.monotonic()
