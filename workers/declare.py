"""`@job`: how an author registers a job type."""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from jobs import registry
from jobs.limit_keys import wrong
from jobs.registry import JobType, NoParams, WrongJobType
from workers.context import JobContext
from workers.retries import Retry

MOST_ATTEMPTS = 100

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")
Said = ParamSpec("Said")
Decorator = TypeVar("Decorator")


def _in_a_sentence(declare: Callable[Said, Decorator]) -> Callable[Said, Decorator]:
    """What `declare` does not take is an author's mistake as any other: WrongJobType, in the place of a TypeError."""
    known = inspect.signature(declare)

    @wraps(declare)
    def declared(*args: Said.args, **kwargs: Said.kwargs) -> Decorator:
        try:
            known.bind(*args, **kwargs)
        except TypeError as error:
            name = repr(args[0]) if args else "without a name"
            options = ", ".join(option for option in known.parameters if option != "name")
            raise WrongJobType(f"Job type {name}: @job {error}; it takes a name and {options}.") from None
        return declare(*args, **kwargs)

    return declared


@_in_a_sentence
def job(
    name: str,
    *,
    cost_class: str | Callable[[P], str],
    params: type[P] = NoParams,  # type: ignore[assignment]
    timeout: float | None = None,
    cost: float | Callable[[P], float] | None = None,
    limit_keys: Sequence[str] | Callable[[P], Sequence[str]] = (),
    retry: Retry = Retry(),  # noqa: B008  frozen
    max_deliveries: int = 3,
    example: dict[str, Any] | None = None,
) -> Callable[[Callable[[JobContext[P]], R]], Callable[[JobContext[P]], R]]:
    """Register the decorated function of one argument, its context, as the handler of job type `name`.

    name: dotted words of letters, digits and _.
    cost_class: a declared class, or a function of the params that names one.
    params: a pydantic model; unknown fields are refused unless it says otherwise.
    timeout: seconds one attempt may run; None is the class's default.
    cost: the seconds of work that is expected of one job, or a function of the params that says so. Left out, it is
        what jobs of the type took here, once twenty have run. A job whose cost exceeds its time-out is refused.
    limit_keys: names of what the job uses and there is only so much of, a licence or somebody else's service, or a function
        of the params that names them: at most 8, of 200 characters. How many jobs that name one may run at once, on all
        workers together, an operator sets in the admin; a key without a row there is not limited.
    retry: how often it is tried in all, and on what; once if not said.
    max_deliveries: how many attempts may be lost with their process before the job counts as poison; with 1
        a lost job is never started again.
    example: params that show the type to callers.

    Raises WrongJobType for what cannot work. What the handler returns must be JSON-able data.
    """
    _check(name, cost_class, timeout, cost, limit_keys, retry, max_deliveries, params, example)

    def decorate(handler: Callable[[JobContext[P]], R]) -> Callable[[JobContext[P]], R]:
        _check_handler(name, handler)
        registry.register(
            JobType(
                name=name,
                handler=handler,
                params=registry.strict(params),
                cost_class=cost_class,
                timeout_seconds=timeout,
                cost=cost,
                limit_keys=limit_keys if callable(limit_keys) else tuple(limit_keys),
                max_attempts=retry.max_attempts,
                max_deliveries=max_deliveries,
                retry=retry,
                example=example,
            )
        )
        return handler

    return decorate


def _check(
    name: str,
    cost_class: Any,
    timeout: float | None,
    cost: Any,
    limit_keys: Any,
    retry: Retry,
    max_deliveries: int,
    params: type[BaseModel],
    example: Any,
) -> None:
    if timeout is not None and not timeout > 0:
        raise WrongJobType(f"Job type {name!r}: timeout is {timeout!r}, but must be more than 0 seconds.")
    if not (cost is None or callable(cost) or (type(cost) in (int, float) and 0 < cost < math.inf)):
        raise WrongJobType(
            f"Job type {name!r}: cost is {cost!r}, but must be a number of seconds above 0, or a function."
        )
    if not callable(limit_keys) and (why := wrong(limit_keys)) is not None:
        raise WrongJobType(f"Job type {name!r}: limit_keys: {why}.")
    if not isinstance(retry, Retry):
        raise WrongJobType(f"Job type {name!r}: retry is {retry!r}, but must be a Retry.")
    for what, value in (("max_attempts", retry.max_attempts), ("max_deliveries", max_deliveries)):
        if type(value) is not int or not 1 <= value <= MOST_ATTEMPTS:
            raise WrongJobType(f"Job type {name!r}: {what} is {value!r}, but must be from 1 to {MOST_ATTEMPTS}.")
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        raise WrongJobType(f"Job type {name!r}: params is {params!r}, but must be a pydantic model class.")
    _check_schema(name, params)
    if not (isinstance(cost_class, str) or callable(cost_class)):
        raise WrongJobType(f"Job type {name!r}: cost_class is {cost_class!r}, but must be a name or a function.")
    if example is not None:
        _check_example(name, registry.strict(params), example)


def _check_handler(name: str, handler: Callable[..., Any]) -> None:
    try:
        inspect.signature(handler).bind(None)
    except (TypeError, ValueError) as error:
        raise WrongJobType(f"Job type {name!r}: its handler must take one argument, its context: {error}.") from None


def _check_schema(name: str, params: type[BaseModel]) -> None:
    try:
        params.model_json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise WrongJobType(f"Job type {name!r}: its params have no JSON Schema: {error}") from None


def _check_example(name: str, params: type[BaseModel], example: Any) -> None:
    try:
        params.model_validate(example)
    except ValidationError as error:
        raise WrongJobType(f"Job type {name!r}: its example does not fit its params: {error}") from None
