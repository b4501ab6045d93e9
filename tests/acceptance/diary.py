"""What the bodies of `tests.note` jobs wrote down."""

from dataclasses import dataclass
from pathlib import Path


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

    def params(self, name: str, seconds: float = 0.0, cost_class: str = "light") -> dict[str, object]:
        return {"diary": str(self.path), "name": name, "seconds": seconds, "cost_class": cost_class}

    def entries(self) -> list[Entry]:
        if not self.path.exists():
            return []
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return [Entry(w, n, j, int(a), int(p), float(t)) for w, n, j, a, p, t in rows]

    def began(self) -> list[str]:
        return [entry.name for entry in self.entries() if entry.what == "begin"]

    def most_at_once(self) -> int:
        """The largest number of bodies that were between begin and end at one instant."""
        at_once = most = 0
        for entry in sorted(self.entries(), key=lambda e: e.at):
            at_once += 1 if entry.what == "begin" else -1
            most = max(most, at_once)
        return most
