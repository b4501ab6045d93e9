"""What a handler says and does through its context while it is tried, and the context that writes it down."""

from collections.abc import Callable, Collection, Mapping
from logging import getLogger
from typing import Any

import structlog

from workers.context import JobContext
from workers.logbook import LOGGER
from workers.once import Memory, once
from workers.testing import FannedOut, OnceCall, Progress


class Notes:
    """What the handler said and did through its context."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.progress: list[Progress] = []
        self.log: list[Mapping[str, Any]] = []
        self.once_calls: list[OnceCall] = []
        self.fan_outs: list[FannedOut] = []

    def once(self, key: str, fn: Callable[[], Any] | None) -> Any:
        there = self.memory.recall(key) is not None
        result = once(self.memory, key, fn)
        self.once_calls.append(OnceCall(key, happened=not there))
        return result

    def fan_out(self, given: Any, clock: Callable[[], float]) -> Callable[..., Any]:
        """What a handler finds as ctx.fan_out: it writes down what was asked, and brings what was given."""

        def fan_out(calls: Mapping[str, Any], deadline: Any, *, required: Collection[str] = ()) -> Any:
            seconds = deadline.at - clock() if hasattr(deadline, "at") else deadline
            self.fan_outs.append(FannedOut(dict(calls), float(seconds), tuple(required)))
            return (
                _brought(given, calls, required)
                if isinstance(given, Mapping)
                else given(calls, deadline, required=required)
            )

        return fan_out

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


def _brought(given: Mapping[str, Any], calls: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    """By name, in the order of the calls. Without one for each call the test is wrong, not the handler."""
    from workers.fanout import RequiredCallFailed

    if missing := [name for name in calls if name not in given]:
        raise AssertionError(f"The handler calls {', '.join(missing)}: say in fan_out={{…}} what they bring.")
    outcomes = {name: given[name] for name in calls}
    if failed := [name for name in required if not outcomes[name].ok]:
        raise RequiredCallFailed(failed[0], outcomes)
    return outcomes


class Missing:
    """Stands where a test gave no fake."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, asked: str) -> Any:
        raise AssertionError(f"The handler uses ctx.{self._name}: give run() a fake as {self._name}=….")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.__getattr__("")
