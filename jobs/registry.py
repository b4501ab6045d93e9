"""Job types: what an author registers, and where everybody else finds it.

Handlers live in the modules that the setting WEIGHBRIDGE_JOB_MODULES names; `load()` imports them, so
that this room never has to know who wrote them.
"""

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from jobs.ranges import WrongSetting

_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_NAME_LENGTH = 100
_IMPORTABLE = "modules that can be imported from PYTHONPATH"


class WrongJobType(ValueError):
    """A registration that cannot work; its text says which and why."""


class AuthorsFault(Exception):
    """A type's own function said what cannot be: not the fault of who submits. `code` names it, in logs and in the outbox."""

    code = "authors_fault"

    def __init__(self, job_type: str, sentence: str) -> None:
        super().__init__(f"Job type {job_type!r} {sentence}")
        self.job_type = job_type


def shown(said: object) -> str:
    """What an author's function returned, for a log: params may be in it, so of most things only the type is told."""
    return repr(said) if said is None or isinstance(said, bool | int | float) else f"a {type(said).__name__}"


class NoParams(BaseModel):
    """The params of a type that takes none."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class JobType:
    """One kind of job. `cost_class` and `timeout_seconds` are what the author declared."""

    name: str
    handler: Callable[[Any], Any]
    params: type[BaseModel]
    cost_class: str | Callable[[Any], str]
    timeout_seconds: float | None = None  # None: the class's default
    cost: float | Callable[[Any], float] | None = None  # expected seconds of work; None: to be measured (P5)
    limit_keys: (
        tuple[str, ...] | Callable[[Any], Sequence[str]]
    ) = ()  # of which only so many jobs may run at once (P12)
    max_attempts: int = 1
    max_deliveries: int = 3  # starts that may be lost with their process before it is poison (P26)
    retry: Any = None  # the author's retry rule; the execution plane knows what it means
    example: dict[str, Any] | None = None

    def weigh(self, params: BaseModel) -> str:
        """The name of the cost class of one job with these params."""
        return self.cost_class(params) if callable(self.cost_class) else self.cost_class


_types: dict[str, JobType] = {}


def register(job_type: JobType) -> JobType:
    """Raises WrongJobType when the name is taken or malformed."""
    if not _NAME.fullmatch(job_type.name) or len(job_type.name) > _NAME_LENGTH:
        raise WrongJobType(
            f"Job type {job_type.name!r}: a name is dotted words of letters, digits and _, at most {_NAME_LENGTH} characters."
        )
    known = _types.get(job_type.name)
    if known is not None and _origin(known) != _origin(job_type):
        raise WrongJobType(
            f"Job type {job_type.name!r} is registered by both {_origin(known)} and {_origin(job_type)}."
        )
    _types[job_type.name] = job_type
    return job_type


def strict(params: type[BaseModel]) -> type[BaseModel]:
    """The model itself if it decides about unknown fields, else one that forbids them at its top level."""
    if "extra" in params.model_config:
        return params
    body = {"model_config": ConfigDict(extra="forbid"), "__module__": params.__module__, "__doc__": params.__doc__}
    return type(params.__name__, (params,), body)


def get(name: str) -> JobType | None:
    return _types.get(name)


def names() -> list[str]:
    return sorted(_types)


def all_types() -> list[JobType]:
    return [_types[name] for name in names()]


def load(modules: Iterable[str]) -> None:
    """Import every module that registers job types. Raises WrongSetting for one that is not there."""
    for module in modules:
        if module.startswith("."):
            raise WrongSetting("WEIGHBRIDGE_JOB_MODULES", module, _IMPORTABLE)
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise WrongSetting("WEIGHBRIDGE_JOB_MODULES", module, _IMPORTABLE) from None


def _origin(job_type: JobType) -> str:
    return f"{job_type.handler.__module__}.{job_type.handler.__qualname__}"
