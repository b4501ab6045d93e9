"""`@job` registers what can work and refuses the rest while its module is imported."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from jobs import registry
from jobs.registry import NoParams, WrongJobType
from workers import JobContext, Retry, job


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_types", {})


class SquareParams(BaseModel):
    n: int


def test_a_decorated_function_is_registered_and_stays_itself() -> None:
    def square(ctx: JobContext[SquareParams]) -> int:
        return ctx.params.n**2

    decorated = job("numbers.square", cost_class="heavy", timeout=30, params=SquareParams, example={"n": 3})(square)
    spec = registry.get("numbers.square")
    assert decorated is square
    assert spec is not None
    assert (spec.handler, spec.cost_class, spec.timeout_seconds, spec.max_attempts, spec.example) == (
        square,
        "heavy",
        30,
        1,
        {"n": 3},
    )
    assert issubclass(spec.params, SquareParams)
    assert spec.params.model_config["extra"] == "forbid"


def test_what_is_left_out_has_its_default() -> None:
    job("a.b", cost_class="light")(lambda ctx: None)
    spec = registry.get("a.b")
    assert spec is not None
    assert (spec.params, spec.timeout_seconds, spec.max_attempts, spec.example) == (NoParams, None, 1, None)
    assert spec.max_deliveries == 3


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"cost_class": "light", "retries": 3},
            r"^Job type 'a\.b': @job got an unexpected keyword argument 'retries'; it takes .* retry, ",
        ),
        ({}, r"^Job type 'a\.b': @job missing a required argument: 'cost_class'; it takes a name and cost_class, "),
    ],
)
def test_what_it_does_not_take_is_said_in_a_sentence(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongJobType, match=sentence):
        job("a.b", **said)


@pytest.mark.parametrize("attempts", [-1, 0, 101])
def test_a_number_of_attempts_out_of_its_range_is_refused(attempts: int) -> None:
    with pytest.raises(WrongJobType, match=rf"'a\.b': max_attempts is {attempts}, but must be from 1 to 100"):
        job("a.b", cost_class="light", retry=Retry(max_attempts=attempts))


@pytest.mark.parametrize("attempts", [1, 2, 100])
def test_a_number_of_attempts_within_its_range_is_kept_with_its_rule(attempts: int) -> None:
    retry = Retry(max_attempts=attempts)
    job("a.b", cost_class="light", retry=retry)(lambda ctx: None)
    (spec,) = registry.all_types()
    assert (spec.max_attempts, spec.retry) == (attempts, retry)


@pytest.mark.parametrize("deliveries", [-1, 0, 101])
def test_a_number_of_deliveries_out_of_its_range_is_refused(deliveries: int) -> None:
    with pytest.raises(WrongJobType, match=rf"'a\.b': max_deliveries is {deliveries}, but must be from 1 to 100"):
        job("a.b", cost_class="light", max_deliveries=deliveries)


@pytest.mark.parametrize("deliveries", [1, 100])
def test_a_number_of_deliveries_within_its_range_is_kept(deliveries: int) -> None:
    job("a.b", cost_class="light", max_deliveries=deliveries)(lambda ctx: None)
    assert registry.all_types()[0].max_deliveries == deliveries


@pytest.mark.parametrize("timeout", [0, -1, -0.5, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(WrongJobType, match="must be more than 0 seconds"):
        job("a.b", cost_class="light", timeout=timeout)


@pytest.mark.parametrize("timeout", [0.001, 30, None])
def test_a_timeout_that_is_some_time_is_taken(timeout: float | None) -> None:
    job("a.b", cost_class="light", timeout=timeout)(lambda ctx: None)
    assert registry.all_types()[0].timeout_seconds == timeout


@pytest.mark.parametrize("params", [dict, int, {"n": int}, SquareParams(n=1), "SquareParams"])
def test_params_that_are_no_model_are_refused(params: Any) -> None:
    with pytest.raises(WrongJobType, match="must be a pydantic model class"):
        job("a.b", cost_class="light", params=params)


def test_params_that_no_caller_could_be_told_of_are_refused() -> None:
    """GET /types shows every type's schema: one without would take the whole list away."""

    class Calls(BaseModel):
        back: Callable[[], int]

    with pytest.raises(WrongJobType, match=r"'a\.b': its params have no JSON Schema: Cannot generate .*Callable"):
        job("a.b", cost_class="light", params=Calls)


@pytest.mark.parametrize("handler", [lambda: None, lambda ctx, more: None, lambda *, ctx: None])
def test_a_handler_that_cannot_be_called_with_its_context_is_refused(handler: Any) -> None:
    with pytest.raises(WrongJobType, match=r"'a\.b': its handler must take one argument, its context: "):
        job("a.b", cost_class="light")(handler)
    assert registry.names() == []


def test_a_malformed_name_is_refused() -> None:
    with pytest.raises(WrongJobType):
        job("a b", cost_class="light")(lambda ctx: None)


@pytest.mark.parametrize("example", [{}, {"n": "three"}, {"n": 3, "more": 1}])
def test_an_example_that_does_not_fit_is_not_registered(example: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="n|more"):
        job("a.b", cost_class="light", params=SquareParams, example=example)(lambda ctx: None)
    assert registry.names() == []


def test_an_example_that_does_not_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(WrongJobType):
        job("a.b", cost_class="light", params=SquareParams, example={})


@pytest.mark.parametrize("cost_class", [None, 5])
def test_a_cost_class_that_is_neither_name_nor_function_is_refused(cost_class: Any) -> None:
    with pytest.raises(WrongJobType):
        job("a.b", cost_class=cost_class)(lambda ctx: None)


@pytest.mark.parametrize("attempts", ["3", 2.5, True, None])
def test_a_number_of_attempts_that_is_no_number_is_refused(attempts: Any) -> None:
    with pytest.raises(WrongJobType, match="must be from 1 to 100"):
        job("a.b", cost_class="light", retry=Retry(max_attempts=attempts))


def test_a_retry_that_is_none_is_refused() -> None:
    wrong: Any = 3
    with pytest.raises(WrongJobType, match="retry is 3, but must be a Retry"):
        job("a.b", cost_class="light", retry=wrong)


@pytest.mark.parametrize("keys", ["licence", 5, {"licence"}, ("",), ("x" * 201,), (7,), ("k",) * 9])
def test_what_are_no_limit_keys_is_refused(keys: Any) -> None:
    with pytest.raises(WrongJobType, match=r"'a\.b': limit_keys: "):
        job("a.b", cost_class="light", limit_keys=keys)


@pytest.mark.parametrize("keys", [(), ("licence",), ["x" * 200] * 8])
def test_limit_keys_are_kept(keys: Any) -> None:
    job("a.b", cost_class="light", limit_keys=keys)(lambda ctx: None)
    spec = registry.get("a.b")
    assert spec is not None
    assert spec.limit_keys == tuple(keys)
