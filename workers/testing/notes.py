"""What a handler says and does through its context while it is tried, and the context that writes it down."""

from collections.abc import Callable, Mapping
from logging import getLogger
from typing import Any

import structlog

from workers.context import JobContext
from workers.logbook import LOGGER
from workers.once import Memory, once
from workers.testing import OnceCall, Progress


class Notes:
    """What the handler said and did through its context."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.progress: list[Progress] = []
        self.log: list[Mapping[str, Any]] = []
        self.once_calls: list[OnceCall] = []

    def once(self, key: str, fn: Callable[[], Any] | None) -> Any:
        there = self.memory.recall(key) is not None
        result = once(self.memory, key, fn)
        self.once_calls.append(OnceCall(key, happened=not there))
        return result

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
        self._written = None
        super().progress(fraction, note)
        shown = self._written or (fraction, note)
        self._notes.progress.append(Progress(*shown, written=self._written is not None))

    def _write(self, fraction: float, note: str) -> None:
        self._written = (fraction, note)


class Missing:
    """Stands where a test gave no fake."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, asked: str) -> Any:
        raise AssertionError(f"The handler uses ctx.{self._name}: give run() a fake as {self._name}=….")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.__getattr__("")
