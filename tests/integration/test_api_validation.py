"""POST /jobs: bodies that are JSON and still no job: 422, with places and reasons and never the value."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, create_model
from structlog.testing import capture_logs

from jobs import classes, registry
from jobs.models import Job
from jobs.registry import JobType, strict
from tests.in_process_api import InProcessApi, problem

pytestmark = pytest.mark.django_db

OK: dict[str, Any] = {"type": "probe.sleep", "params": {"seconds": 0}}
LIGHT = classes.get("light")


class Numbers(BaseModel):
    numbers: list[int] = []


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


@pytest.fixture
def add_type(monkeypatch: pytest.MonkeyPatch) -> Any:
    """add_type(name, **spec) for the length of a test."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))

    def add(name: str, **spec: Any) -> None:
        defaults = {"handler": print, "params": strict(Numbers), "cost_class": "light"}
        registry.register(JobType(name=name, **{**defaults, **spec}))

    return add


@pytest.mark.parametrize("body", [None, [], "probe.sleep", 5, True, [OK]])
def test_a_body_that_is_no_object_is_invalid(api: InProcessApi, body: Any) -> None:
    members = problem(api.json(body), 422, "invalid_request")
    assert members["errors"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"params": []}, "Must be a JSON object."),
        ({"labels": []}, "Must be a JSON object."),
        ({"labels": {f"label {n}": "" for n in range(17)}}, "Object should have at most 16 items"),
        ({"labels": {"a:b": "x"}}, "A label's name holds no colon: jobs are asked for by label as name:value."),
    ],
)
def test_what_is_wrong_is_said_in_words_of_json(api: InProcessApi, said: dict[str, Any], sentence: str) -> None:
    members = problem(api.json({**OK, **said}), 422, "invalid_request")
    assert [error["msg"] for error in members["errors"]] == [sentence]


def test_a_list_of_params_that_is_none_is_said_in_words_of_json(api: InProcessApi, add_type: Any) -> None:
    add_type(
        "tests.numbers", params=strict(create_model("Few", numbers=(Annotated[list[int], Field(max_length=1)], ...)))
    )
    for numbers, sentence in ((5, "Must be a JSON array."), ([1, 2], "Array should have at most 1 item, not 2")):
        members = problem(api.post("tests.numbers", {"numbers": numbers}), 422, "invalid_params")
        assert [error["msg"] for error in members["errors"]] == [sentence]


@pytest.mark.parametrize("asked", [10_000_000.0, 1_234_567.5])
def test_a_large_number_is_said_in_digits(api: InProcessApi, asked: float) -> None:
    response = api.json({**OK, "max_wait_seconds": asked})
    problem(response, 422, "limit_out_of_range")
    assert f"max_wait_seconds is {str(asked).removesuffix('.0')};" in response.json()["detail"]


WRONG_FIELDS = [
    ("type", None),
    ("type", 5),
    ("type", ["probe.sleep"]),
    ("type", "x" * 101),
    ("params", None),
    ("params", []),
    ("params", "seconds"),
    ("timeout_seconds", "5"),
    ("timeout_seconds", True),
    ("timeout_seconds", [5]),
    ("max_wait_seconds", "5"),
    ("max_wait_seconds", False),
    ("labels", None),
    ("labels", []),
    ("labels", {f"label {number}": "" for number in range(17)}),
    ("labels", {"team": 5}),
    ("labels", {"team": None}),
    ("labels", {"": "ops"}),
    ("labels", {"n" * 64: "ops"}),
    ("labels", {"team": "v" * 256}),
    ("surprise", 1),
    ("Type", "probe.sleep"),
]


@pytest.mark.parametrize(("field", "value"), WRONG_FIELDS)
def test_a_wrong_field_is_named(api: InProcessApi, field: str, value: Any) -> None:
    members = problem(api.json({**OK, field: value}), 422, "invalid_request")
    assert {error["loc"][0] for error in members["errors"]} == {field}
    assert all(error["msg"] for error in members["errors"])
    assert not Job.objects.exists()


def test_a_body_without_a_type_is_invalid(api: InProcessApi) -> None:
    members = problem(api.json({"params": {}}), 422, "invalid_request")
    assert [error["loc"] for error in members["errors"]] == [["type"]]


@pytest.mark.parametrize("name", ["probe.slep", "", "PROBE.SLEEP", "probe.sleep ", "x" * 100, "<b>", "\u202e"])
def test_a_type_that_nobody_registered_is_unknown(api: InProcessApi, name: str) -> None:
    told = problem(api.post(name), 422, "unknown_type")
    assert [place["loc"] for place in told["errors"]] == [["type"]]


@pytest.mark.parametrize(
    ("params", "loc"),
    [
        ({}, "seconds"),
        ({"seconds": -0.001}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        ({"seconds": None}, "seconds"),
        ({"seconds": 0, "cost_class": "huge"}, "cost_class"),
        ({"seconds": 0, "more": 1}, "more"),
    ],
)
def test_params_that_do_not_fit_are_named(api: InProcessApi, params: dict[str, Any], loc: str) -> None:
    members = problem(api.post("probe.sleep", params), 422, "invalid_params")
    assert [error["loc"] for error in members["errors"]] == [["params", loc]]
    assert not Job.objects.exists()


def test_a_params_model_that_says_nothing_forbids_unknown_fields(api: InProcessApi, add_type: Any) -> None:
    add_type("tests.numbers")
    assert api.post("tests.numbers", {"numbers": [1]}).status_code == 202
    problem(api.post("tests.numbers", {"number": [1]}), 422, "invalid_params")


def test_the_place_in_nested_params_is_named(api: InProcessApi, add_type: Any) -> None:
    add_type("tests.numbers")
    members = problem(api.post("tests.numbers", {"numbers": [1, "x"]}), 422, "invalid_params")
    assert [error["loc"] for error in members["errors"]] == [["params", "numbers", "1"]]


@pytest.mark.parametrize(("wrong", "told"), [(99, 99), (100, 100), (101, 100)])
def test_at_most_a_hundred_errors_are_told(api: InProcessApi, add_type: Any, wrong: int, told: int) -> None:
    add_type("tests.numbers")
    members = problem(api.post("tests.numbers", {"numbers": ["x"] * wrong}), 422, "invalid_params")
    assert len(members["errors"]) == told


@pytest.mark.parametrize("body", [{**OK, "labels": {"team": ["xyzzy"]}}, {**OK, "params": {"seconds": "xyzzy"}}])
def test_an_error_never_repeats_the_value(api: InProcessApi, body: Any) -> None:
    """It may be a secret that stands in the wrong place."""
    response = api.json(body)
    assert response.status_code == 422
    assert b"xyzzy" not in response.content


LIMITS = [
    ("timeout_seconds", 0.1, LIGHT.ceiling_seconds),
    ("max_wait_seconds", 0.1, LIGHT.max_wait_seconds),
]


@pytest.mark.parametrize(("field", "low", "high"), LIMITS)
def test_a_limit_at_either_end_of_its_range_is_taken(api: InProcessApi, field: str, low: float, high: float) -> None:
    for value in (low, high):
        assert api.json({**OK, field: value}).status_code == 202


@pytest.mark.parametrize(("field", "low", "high"), LIMITS)
def test_a_limit_beyond_its_range_is_refused_and_never_cut(
    api: InProcessApi, field: str, low: float, high: float
) -> None:
    for value in (low - 0.01, high + 0.01, 0, -1, 1e300):
        members = problem(api.json({**OK, field: value}), 422, "limit_out_of_range")
        assert members["errors"] == [{"loc": [field], "msg": f"must be from {low:g} to {high:g} seconds here"}]
    assert not Job.objects.exists()


def test_the_ceiling_is_that_of_the_class_the_params_lead_to(api: InProcessApi) -> None:
    heavy = classes.get("heavy").ceiling_seconds
    params = {"seconds": 0, "cost_class": "heavy"}
    assert api.post("probe.sleep", params, timeout_seconds=heavy).status_code == 202
    problem(api.post("probe.sleep", params, timeout_seconds=heavy + 1), 422, "limit_out_of_range")


@pytest.mark.parametrize(("timeout", "told"), [(None, LIGHT.timeout_seconds), (3.5, 3.5)])
def test_a_types_own_timeout_goes_before_the_classs(
    api: InProcessApi, add_type: Any, timeout: float | None, told: float
) -> None:
    add_type("tests.numbers", timeout_seconds=timeout)
    assert api.post("tests.numbers").json()["timeout_seconds"] == told


@pytest.mark.parametrize("cost_class", [lambda params: "huge", lambda params: 1 / 0])
def test_a_type_that_cannot_name_a_class_is_our_fault_and_not_the_callers(
    api: InProcessApi, add_type: Any, cost_class: Any
) -> None:
    add_type("tests.numbers", cost_class=cost_class)
    assert problem(api.post("tests.numbers"), 500, "internal_error") == {}


def test_what_an_unexpected_error_says_is_not_logged(api: InProcessApi, add_type: Any) -> None:
    """It may hold params."""

    def cost_class(params: Any) -> str:
        raise RuntimeError(params.model_dump_json())

    add_type("tests.telling", cost_class=cost_class, params=create_model("Telling", card=(str, ...)))
    with capture_logs() as lines:
        problem(api.post("tests.telling", {"card": "4242-4242"}), 500, "internal_error")
    (told,) = [line for line in lines if line["event"] == "request_failed"]
    assert told["error"] == "RuntimeError"
    assert "in cost_class" in told["frames"]
    assert "4242" not in str(lines)


@pytest.mark.parametrize(("named", "told_as"), [("lite", "a str"), (None, "None"), (["light"], "a list")])
def test_an_undeclared_class_is_the_authors_fault_and_told_in_the_log_without_what_may_be_params(
    api: InProcessApi, add_type: Any, named: Any, told_as: str
) -> None:
    add_type("tests.lost", cost_class=lambda params: named)
    with capture_logs() as lines:
        problem(api.post("tests.lost"), 500, "internal_error")
    told = [line for line in lines if line["event"] == "undeclared_class"]
    assert [(line["type"], line["log_level"]) for line in told] == [("tests.lost", "error")]
    assert f"asks for cost class {told_as};" in told[0]["error"]
    assert not Job.objects.exists()
