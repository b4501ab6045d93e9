"""`@job`: how an author registers a job type."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from jobs import registry
from jobs.registry import JobType, NoParams, WrongJobType
from workers.context import JobContext
from workers.retries import Retry

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")


def job(
    name: str,
    *,
    cost_class: str | Callable[[P], str],
    params: type[P] = NoParams,  # type: ignore[assignment]
    timeout: float | None = None,
    retry: Retry = Retry(),  # noqa: B008  frozen
    example: dict[str, Any] | None = None,
) -> Callable[[Callable[[JobContext[P]], R]], Callable[[JobContext[P]], R]]:
    """Register the decorated function of one argument, its context, as the handler of job type `name`.

    name: dotted words of letters, digits and _.
    cost_class: a declared class, or a function of the params that names one.
    params: a pydantic model; unknown fields are refused unless it says otherwise.
    timeout: seconds one attempt may run; None is the class's default.
    example: params that show the type to callers.

    Raises WrongJobType for what cannot work. What the handler returns must be JSON-able data.
    """
    _check(name, cost_class, timeout, retry, params, example)

    def decorate(handler: Callable[[JobContext[P]], R]) -> Callable[[JobContext[P]], R]:
        registry.register(
            JobType(
                name=name,
                handler=handler,
                params=registry.strict(params),
                cost_class=cost_class,
                timeout_seconds=timeout,
                max_attempts=retry.max_attempts,
                example=example,
            )
        )
        return handler

    return decorate


def _check(
    name: str, cost_class: Any, timeout: float | None, retry: Retry, params: type[BaseModel], example: Any
) -> None:
    if timeout is not None and not timeout > 0:
        raise WrongJobType(f"Job type {name!r}: timeout is {timeout!r}, but must be more than 0 seconds.")
    if retry.max_attempts != 1:
        raise WrongJobType(
            f"Job type {name!r}: max_attempts is {retry.max_attempts}; only 1 is supported, jobs are not retried."
        )
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        raise WrongJobType(f"Job type {name!r}: params is {params!r}, but must be a pydantic model class.")
    if not (isinstance(cost_class, str) or callable(cost_class)):
        raise WrongJobType(f"Job type {name!r}: cost_class is {cost_class!r}, but must be a name or a function.")
    if example is not None:
        _check_example(name, registry.strict(params), example)


def _check_example(name: str, params: type[BaseModel], example: Any) -> None:
    try:
        params.model_validate(example)
    except ValidationError as error:
        raise WrongJobType(f"Job type {name!r}: its example does not fit its params: {error}") from None
