"""Weigh a job: its params, which fit and are not too large, its class, which is declared, and its limits, which are in range.

For whoever lets jobs in, the API, `jobs.submit` and those who run a handler by hand. Nothing is read or written here; what cannot be
is raised, and each door says it in its own words.
"""

import json
from typing import Any

from pydantic import BaseModel

from jobs import classes
from jobs.classes import CostClass
from jobs.registry import AuthorsFault, JobType, shown

SHORTEST_LIMIT_SECONDS = 0.1


class UndeclaredClass(AuthorsFault):
    """A type's cost-class function named a class that is not declared."""

    code = "undeclared_class"

    def __init__(self, job_type: str, cost_class: object) -> None:
        declared = ", ".join(classes.declared())
        super().__init__(job_type, f"asks for cost class {shown(cost_class)}; declared are {declared}.")
        self.cost_class = cost_class


class ParamsTooLarge(ValueError):
    """Params above the most that their class takes, both in bytes of compact JSON."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"The params are {size_bytes} bytes; at most {limit_bytes} are taken.")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class LimitOutOfRange(ValueError):
    """A limit that the caller asked for, in seconds, and the range it must be in."""

    def __init__(self, name: str, asked: float, highest: float) -> None:
        low = SHORTEST_LIMIT_SECONDS
        super().__init__(f"{name} is {asked:.15g}, but must be from {low:g} to {highest:.15g} seconds.")
        self.name, self.asked, self.lowest, self.highest = name, asked, low, highest


def weighed(job_type: JobType, params: dict[str, Any]) -> tuple[BaseModel, CostClass]:
    """The validated model and the class. Raises pydantic's ValidationError, UndeclaredClass, ParamsTooLarge."""
    model = job_type.params.model_validate(params)
    cost_class = _class_of(job_type, model)
    size = len(json.dumps(params, ensure_ascii=False, separators=(",", ":")).encode())
    if size > cost_class.params_bytes:
        raise ParamsTooLarge(size, cost_class.params_bytes)
    return model, cost_class


def timeout_seconds(job_type: JobType, cost_class: CostClass, asked: float | None, name: str) -> float:
    """The longest that one attempt may take. Raises LimitOutOfRange, which calls it `name`."""
    default = job_type.timeout_seconds or cost_class.timeout_seconds
    return _limit(name, asked, default, cost_class.ceiling_seconds)


def max_wait_seconds(cost_class: CostClass, asked: float | None, name: str) -> float:
    """The longest that the job may wait for its start. Raises LimitOutOfRange, which calls it `name`."""
    return _limit(name, asked, cost_class.max_wait_seconds, cost_class.max_wait_seconds)


def _class_of(job_type: JobType, params: BaseModel) -> CostClass:
    name: object = job_type.weigh(params)  # an author's function may return anything
    if not isinstance(name, str) or name not in classes.declared():
        raise UndeclaredClass(job_type.name, name)
    return classes.get(name)


def _limit(name: str, asked: float | None, default: float, highest: float) -> float:
    if asked is None:
        return min(default, highest)
    if not SHORTEST_LIMIT_SECONDS <= asked <= highest:
        raise LimitOutOfRange(name, asked, highest)
    return asked
