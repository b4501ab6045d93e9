"""bin/up --reload: when a file of the author's changes, the web and the workers are started anew, in order.

Files are looked at once a second by their time and size: that works on every file system, also over a network or into a
container, and a few thousand files cost milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from stack.children import run_module
from stack.failures import StackError
from stack.local import READY_SECONDS, Stack
from stack.programs import ROOT

OWN_PACKAGES = ("jobs", "workers", "project")
SWEEPS = "worker-control"
CHECK_SECONDS = 60.0
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Snapshot = Mapping[Path, tuple[int, int]]  # time of change in ns, size in bytes


class Reloader:
    """Looks at the files of a running stack; see `look`."""

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._say = say
        self._places = places_of(stack.environment)
        self._loaded = self._seen = snapshot(self._places)

    def look(self) -> None:
        """To be repeated. Reloads once files have changed and then kept still for one look, as an editor or a
        checkout may write several."""
        before, self._seen = self._seen, snapshot(self._places)
        if self._seen != before or self._seen == self._loaded:
            return
        changed, self._loaded = changes(self._loaded, self._seen), self._seen
        self._say(f"Changed: {', '.join(_shown(path) for path in changed[:5])}{' …' if changed[5:] else ''}")
        try:
            self._reload()
        except StackError as error:
            self._say(str(error))

    def _reload(self) -> None:
        """What cannot even be loaded stops nothing: the running processes go on with what they have."""
        try:
            run_module("stack.plan", self._stack.environment, self._stack.log("plan"), CHECK_SECONDS, self._say)
        except StackError as error:
            raise StackError(f"Not reloaded: {error}") from None
        for program in programs_of(self._stack.programs()):
            # A worker's running jobs get their grace: time enough to save what nobody has checked yet.
            if self._has_changed_again():
                break
            self._restart(program)
        self._stack.wait_ready(READY_SECONDS)
        self._say("Changed again meanwhile." if self._has_changed_again() else "Reloaded.")

    def _restart(self, program: str) -> None:
        """One that does not come up is told, and keeps none of the others on old code."""
        try:
            self._stack.restart_program(program)
        except StackError as error:
            self._say(str(error))

    def _has_changed_again(self) -> bool:
        """The next looks see it too, and reload once more."""
        return snapshot(self._places) != self._loaded


def programs_of(running: Mapping[str, str]) -> list[str]:
    """The web first: until its workers know a new type too, a submit of it is told 503, not that there is no such type.

    The sweeps last: nobody waits for them.
    """
    workers = sorted(name for name in running if name.startswith("worker-") and name != SWEEPS)
    return [name for name in ("web", *workers, SWEEPS) if name in running]


def places_of(environment: Mapping[str, str]) -> list[Path]:
    """Where to look: our own packages, those of the job modules and of the settings, found without importing any.

    A module that lies in no package stands for the folder it lies in, without the folders therein.
    """
    named = environment.get("WEIGHBRIDGE_JOB_MODULES", "").split(",")
    modules = [*named, environment.get("DJANGO_SETTINGS_MODULE", "")]
    tops = dict.fromkeys([*OWN_PACKAGES, *(name.strip().partition(".")[0] for name in modules if name.strip())])
    search = environment.get("PYTHONPATH", str(ROOT)).split(os.pathsep)
    return [place for top in tops for place in _places(top, search)]


def _places(top: str, search: Sequence[str]) -> list[Path]:
    found = PathFinder.find_spec(top, list(search))
    if found is None:
        return []
    if found.submodule_search_locations is not None:
        return [Path(place) for place in found.submodule_search_locations]
    return [Path(found.origin)] if found.origin else []


def snapshot(places: Sequence[Path]) -> Snapshot:
    seen = {}
    for file in _files(places):
        try:
            status = file.stat()
        except OSError:
            continue  # gone between the listing and the look
        seen[file] = (status.st_mtime_ns, status.st_size)
    return seen


def _files(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.suffix == ".py":
            yield from place.parent.glob("*.py")
            continue
        for folder, inner, names in os.walk(place):
            inner[:] = [name for name in inner if name not in _SKIPPED and not name.startswith(".")]
            yield from (Path(folder, name) for name in names if name.endswith(".py"))


def changes(before: Snapshot, now: Snapshot) -> list[Path]:
    """Files that were changed, added or removed."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
