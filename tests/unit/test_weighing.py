"""What is asked of a job before there is one, for every door alike."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from jobs import classes
from jobs.door import weighing
from jobs.registry import JobType

LIGHT = classes.get("light")


class Params(BaseModel):
    text: str


def _type(cost_class: Any = "light", timeout: float | None = None) -> JobType:
    return JobType("tests.weighing", print, Params, cost_class=cost_class, timeout_seconds=timeout)


def test_params_become_the_model_and_its_class() -> None:
    model, cost_class = weighing.weighed(_type(lambda params: params.text), {"text": "heavy"})
    assert (model, cost_class) == (Params(text="heavy"), classes.get("heavy"))
    with pytest.raises(ValidationError):
        weighing.weighed(_type(), {"text": 5})


@pytest.mark.parametrize(("named", "told_as"), [("lite", "a str"), (None, "None"), (["light"], "a list")])
def test_an_undeclared_class_is_told_with_its_type_and_without_what_may_be_params(named: Any, told_as: str) -> None:
    with pytest.raises(weighing.UndeclaredClass) as told:
        weighing.weighed(_type(lambda params: named), {"text": ""})
    assert str(told.value) == f"Job type 'tests.weighing' asks for cost class {told_as}; declared are light, heavy."


def test_params_may_be_as_large_as_their_class_takes_in_bytes() -> None:
    room = LIGHT.params_bytes - len('{"text":""}')
    weighing.weighed(_type(), {"text": "é" * (room // 2)})
    with pytest.raises(weighing.ParamsTooLarge) as told:
        weighing.weighed(_type(), {"text": "x" * (room + 1)})
    assert (told.value.size_bytes, told.value.limit_bytes) == (LIGHT.params_bytes + 1, LIGHT.params_bytes)


@pytest.mark.parametrize(
    ("declared", "asked", "limit"),
    [
        (None, None, LIGHT.timeout_seconds),
        (7, None, 7),
        (7, 0.1, 0.1),
        (7, LIGHT.ceiling_seconds, LIGHT.ceiling_seconds),
    ],
)
def test_a_timeout_is_the_callers_the_types_or_the_classs(declared: Any, asked: Any, limit: float) -> None:
    assert weighing.timeout_seconds(_type(timeout=declared), LIGHT, asked, "timeout") == limit


@pytest.mark.parametrize("asked", [0.05, LIGHT.ceiling_seconds + 0.1, float("nan")])
def test_a_timeout_out_of_range_is_told_with_its_range(asked: float) -> None:
    with pytest.raises(weighing.LimitOutOfRange, match=r"^timeout is .*, but must be from 0\.1 to 30 seconds\.$"):
        weighing.timeout_seconds(_type(), LIGHT, asked, "timeout")


def test_a_caller_may_wait_shorter_than_the_class_lets_it() -> None:
    highest = LIGHT.max_wait_seconds
    assert [weighing.max_wait_seconds(LIGHT, asked, "max_wait") for asked in (None, 1, highest)] == [
        highest,
        1,
        highest,
    ]
    with pytest.raises(weighing.LimitOutOfRange):
        weighing.max_wait_seconds(LIGHT, highest + 1, "max_wait")
