"""What the bodies of `tests.note` jobs did, by the names that a test gave them, and the gate that holds them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.api_client import Api
from tests.history.events import BodyBegan, BodyEnded
from tests.history.recorder import History
from tests.waiting import eventually


@dataclass(frozen=True)
class Diary:
    """A view of a history. Two of one history differ in their gates only."""

    history: History
    gate_name: str = "gate"

    def params(
        self, name: str, seconds: float = 0.0, cost_class: str = "light", held: bool = False, fails: bool = False
    ) -> dict[str, object]:
        """A `held` body goes on only once the gate is opened."""
        gate = str(self._gate) if held else ""
        return {"name": name, "seconds": seconds, "cost_class": cost_class, "gate": gate, "fails": fails}

    @property
    def _gate(self) -> Path:
        return self.history.path.with_suffix(f".{self.gate_name}")

    def open_gate(self) -> None:
        """Let every held body go on, those that begin later too."""
        self._gate.touch()

    def close_gate(self) -> None:
        self._gate.unlink()

    def began(self) -> list[str]:
        """In the order of their instants, as everywhere here."""
        return [event.name for event in self.begins()]

    def begins(self) -> list[BodyBegan]:
        """Of bodies that have a name."""
        return [event for event in self._bodies() if isinstance(event, BodyBegan)]

    def ended(self) -> list[str]:
        """Of bodies that returned."""
        bodies = self._bodies()
        names = {event.job_id: event.name for event in bodies if isinstance(event, BodyBegan)}
        return [names[event.job_id] for event in bodies if isinstance(event, BodyEnded) and event.how == "returned"]

    def first(self, name: str) -> BodyBegan:
        return next(event for event in self.begins() if event.name == name)

    def _bodies(self) -> list[BodyBegan | BodyEnded]:
        events = [e for e in self.history.events(BodyBegan, BodyEnded) if isinstance(e, BodyBegan | BodyEnded)]
        named = {event.job_id for event in events if isinstance(event, BodyBegan) and event.name}
        return [event for event in events if event.job_id in named]

    def wait_until_began(self, *names: str, within_seconds: float = 10.0) -> None:
        self._wait(self.began, names, within_seconds)

    def wait_until_ended(self, *names: str, within_seconds: float = 10.0) -> None:
        self._wait(self.ended, names, within_seconds)

    def _wait(self, written: Callable[[], list[str]], names: tuple[str, ...], within_seconds: float) -> None:
        eventually(lambda: set(names) <= set(written()), within_seconds, 0.02)

    def both_processes_work(self, api: Api, within_seconds: float) -> None:
        """Two heavy jobs are seen to run at once: each process has its child, and the child a place."""
        pair = Diary(self.history, f"pair-{uuid4().hex[:8]}")
        names = [f"{pair.gate_name}-{i}" for i in range(2)]
        jobs = [api.submit("tests.note", pair.params(name, cost_class="heavy", held=True)) for name in names]
        try:
            pair.wait_until_began(*names, within_seconds=within_seconds)
        finally:
            pair.open_gate()
        assert {api.ended(job_id)["state"] for job_id in jobs} == {"succeeded"}

    def most_at_once(self) -> int:
        """The largest number of bodies that were between begin and end at one instant."""
        at_once = most = 0
        for event in self._bodies():
            at_once += 1 if isinstance(event, BodyBegan) else -1
            most = max(most, at_once)
        return most

    def longest_idle(self, processes: int, since: float) -> float:
        """Seconds: the longest that a process had no body after `since`, up to a begin that followed.

        Says something when every body was claimable from `since` on, and every one ended.
        """
        free, longest = [since] * processes, 0.0
        for event in self._bodies():
            if isinstance(event, BodyEnded):
                free.append(max(event.at, since))
            else:
                assert free, f"{event.name} began although {processes} bodies were running"
                longest = max(longest, event.at - max(free.pop(0), since))
        return longest
