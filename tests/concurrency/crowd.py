"""Other operating-system processes that call the code under test at the same instant.

This module imports no Django at its top: a child imports it before it is set up.
"""

import importlib
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any
from urllib.parse import quote

_BARRIER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Member:
    """Who does a deed. `meet` returns once every member has called it, so that none is far ahead of the others."""

    number: int
    meet: Callable[[], object]


def rounds_until(met: Callable[[], bool], at_least: int, at_most: int = 100) -> Iterator[int]:
    """Numbers of rounds: `at_least` of them, and then as many as it takes (on a busy machine processes seldom meet)."""
    for number in range(at_most):
        if number >= at_least and met():
            return
        yield number


class Crowd:
    """A few processes, alive for the whole session; each runs the functions of `tests.concurrency.deeds` by name."""

    def __init__(self, size: int) -> None:
        self.size = size
        spawn = multiprocessing.get_context("spawn")
        self._gate = spawn.Barrier(size)
        self._members: list[tuple[Any, Connection]] = []
        for number in range(size):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_live, args=(database_url(), number, theirs, self._gate), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def do(self, deeds: list[tuple[str, dict[str, Any]]], within_seconds: float = 60.0) -> list[Any]:
        """One deed (a name and its arguments) for each member, begun together; what each returned."""
        assert len(deeds) == self.size
        for (_, pipe), deed in zip(self._members, deeds, strict=True):
            pipe.send(deed)
        answers = [_answer(pipe, within_seconds) for _, pipe in self._members]
        failures = [text for failed, text in answers if failed]
        assert not failures, failures[0]
        return [value for _, value in answers]

    def all_do(self, name: str, **arguments: Any) -> list[Any]:
        return self.do([(name, arguments)] * self.size)

    def go_home(self) -> None:
        for process, pipe in self._members:
            pipe.send(None)
            process.join(10)
            if process.is_alive():
                process.kill()
            pipe.close()


def _answer(pipe: Connection, within_seconds: float) -> tuple[bool, Any]:
    if not pipe.poll(within_seconds):
        return True, f"no answer within {within_seconds} s"
    answer: tuple[bool, Any] = pipe.recv()
    return answer


def database_url() -> str:
    """Of the test database, which exists by now."""
    from django.db import connection

    of = connection.settings_dict
    user, password = quote(of["USER"], safe=""), quote(of["PASSWORD"], safe="")
    return f"postgresql://{user}:{password}@{of['HOST']}:{of['PORT']}/{of['NAME']}"


def _live(database_url: str, number: int, pipe: Connection, gate: Barrier) -> None:
    os.environ["DATABASE_URL"] = database_url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ["WEIGHBRIDGE_LOG_LEVEL"] = "ERROR"
    import django

    import project  # noqa: F401  Celery's application, to publish with

    django.setup()
    deeds = importlib.import_module("tests.concurrency.deeds")
    member = Member(number, lambda: gate.wait(_BARRIER_SECONDS))
    while (deed := pipe.recv()) is not None:
        name, arguments = deed
        try:
            member.meet()
            pipe.send((False, getattr(deeds, name)(member, **arguments)))
        except BaseException:
            pipe.send((True, traceback.format_exc()))
