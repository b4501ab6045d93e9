"""The history's file: append-only, written by many threads and processes at once, some of which are killed."""

import json
import os
import time
from pathlib import Path

from tests.history.events import Event, begin_of_line, from_line, to_line

RECORDED = frozenset({"tests.note", "tests.behave", "tests.once_only"})  # job types whose bodies write into a history
SUBMISSION = "submission"  # the label that carries a submission's name


class History:
    """One file of events. Cheap to make: a body opens the one that its params name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Tells this history's submissions from those of others."""
        return self.path.stem

    def append(self, event: Event) -> None:
        """One write to a file opened for appending: lines of different processes are never mixed.

        A process killed inside its write may leave a torn line; the newline before each keeps it from spoiling the next.
        """
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"\n{to_line(event)}\n".encode())
        finally:
            os.close(file)

    def events(self, *kinds: type[Event]) -> list[Event]:
        """Those of some kinds, or all, in the order of their instants.

        Torn lines are left out: nobody was told what they would have said.
        """
        begins = tuple(begin_of_line(kind) for kind in kinds) or ("",)
        return sorted(_whole(self._lines(begins)), key=lambda event: event.at)

    def _lines(self, begins: tuple[str, ...]) -> list[str]:
        try:
            return [line for line in self.path.read_text().split("\n") if line and line.startswith(begins)]
        except FileNotFoundError:
            return []


def _whole(lines: list[str]) -> list[Event]:
    events = []
    for line in lines:
        try:
            events.append(from_line(line))
        except json.JSONDecodeError:
            continue
    return events


def now() -> float:
    """The clock of every event: one for all processes of this machine."""
    return time.monotonic()
