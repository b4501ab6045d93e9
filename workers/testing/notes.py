"""What a handler says and does through its context while it is tried, and the context that writes it down."""

import io
from collections.abc import Callable, Collection, Mapping
from logging import getLogger
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from workers.context import JobContext
from workers.logbook import LOGGER
from workers.once import Memory, once
from workers.testing import FannedOut, OnceCall, Progress


class WrongTest(BaseException):
    """The test, or the handler's use of its context, is wrong: there is no outcome to speak of."""


class Notes:
    """What the handler said and did through its context."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.progress: list[Progress] = []
        self.log: list[Mapping[str, Any]] = []
        self.once_calls: list[OnceCall] = []
        self.fan_outs: list[FannedOut] = []
        self.mistake: WrongTest | None = None  # it comes out of `run`, whatever the handler does with it

    def once(self, key: str, fn: Callable[[], Any] | None) -> Any:
        there = self.memory.recall(key) is not None
        try:
            return once(self.memory, key, fn)
        finally:  # also where the result cannot be kept: the effect has happened
            if self.memory.recall(key) is not None:
                self.once_calls.append(OnceCall(key, happened=not there))

    def fan_out(self, given: Any, clock: Callable[[], float]) -> Callable[..., Any]:
        """What a handler finds as ctx.fan_out: it writes down what was asked, and brings what was given."""

        def fan_out(calls: Mapping[str, Any], deadline: Any, *, required: Collection[str] = ()) -> Any:
            seconds = deadline.at - clock() if hasattr(deadline, "at") else deadline
            self.fan_outs.append(FannedOut(dict(calls), float(seconds), tuple(required)))
            if not isinstance(given, Mapping):
                return given(calls, deadline, required=required)
            if missing := [name for name in calls if name not in given]:
                raise self.wrong(f"The handler calls {', '.join(missing)}: say in fan_out={{…}} what they bring.")
            return _brought(given, calls, required)

        return fan_out

    def open_upload(self, given: Mapping[str, Any], upload_id: str) -> BinaryIO:
        if upload_id not in given:
            raise self.wrong(f"The handler opens upload {upload_id}: say in uploads={{…}} what it holds.")
        content = given[upload_id]
        return io.BytesIO(content) if isinstance(content, bytes) else Path(content).open("rb")

    def wrong(self, sentence: str) -> WrongTest:
        """To be raised where the handler is."""
        self.mistake = self.mistake or WrongTest(sentence)
        return self.mistake

    def logger(self, job_type: str) -> Any:
        return structlog.wrap_logger(
            getLogger(f"{LOGGER}.{job_type}"),
            processors=[structlog.stdlib.PositionalArgumentsFormatter(), structlog.stdlib.add_log_level, self._write],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def _write(self, logger: Any, method: str, line: Any) -> Any:
        self.log.append(dict(line))
        raise structlog.DropEvent


class TrialContext(JobContext[Any]):
    def __init__(self, params: Any, *, notes: Notes, report: Callable[[float, str], None], **rest: Any) -> None:
        self._notes = notes
        self._written: tuple[float, str] | None = None
        super().__init__(params, report=self._write, **rest)

    def progress(self, fraction: float, note: str = "") -> None:
        if not 0 <= fraction <= 1:
            raise self._notes.wrong(f"ctx.progress takes a fraction from 0 to 1, and was given {fraction!r}.")
        self._written = None
        super().progress(fraction, note)
        shown = self._written or (fraction, note)
        self._notes.progress.append(Progress(*shown, written=self._written is not None))

    def _write(self, fraction: float, note: str) -> None:
        self._written = (fraction, note)


def _brought(given: Mapping[str, Any], calls: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    """By name, in the order of the calls."""
    from workers.fanout import RequiredCallFailed

    outcomes = {name: given[name] for name in calls}
    if failed := [name for name in required if not outcomes[name].ok]:
        raise RequiredCallFailed(failed[0], outcomes)
    return outcomes


class Missing:
    """Stands where a test gave no fake."""

    def __init__(self, name: str, notes: Notes) -> None:
        self._name = name
        self._notes = notes

    def __getattr__(self, asked: str) -> Any:
        raise self._notes.wrong(f"The handler uses ctx.{self._name}: give run() a fake as {self._name}=….")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.__getattr__("")
